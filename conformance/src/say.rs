//! What the command says. Whoever reads it may stop reading (`| head`): the work goes on, and the exit code tells.

/// A line on the standard output, if anybody reads it.
macro_rules! say {
    ($($text:tt)*) => {
        drop(std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{}\n", format_args!($($text)*))))
    };
}

/// A line on the standard error, if anybody reads it.
macro_rules! tell {
    ($($text:tt)*) => {
        drop(std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($text)*))))
    };
}

pub(crate) use {say, tell};
