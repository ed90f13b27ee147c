//! The programs of the documentation, as tests.

macro_rules! pages {
    ($($page:literal),+ $(,)?) => {
        $(#[doc = include_str!(concat!("../../docs/recipes/", $page))] const _: () = ();)+
    };
}

pages!(
    "barrier.md",
    "cache.md",
    "count-down-latch.md",
    "counter.md",
    "double-barrier.md",
    "id-generator.md",
    "lock.md",
    "shared-value.md",
    "work-queue.md",
);
