//! The programs of the documentation, as tests.

macro_rules! pages {
    ($($page:literal),+ $(,)?) => {
        $(#[doc = include_str!(concat!("../../docs/recipes/", $page))] const _: () = ();)+
    };
}

pages!("lock.md");
