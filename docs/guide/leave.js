// Links that leave the book lead into the repository.
//
// A page has them relative to where its text is in the repository, so that they work there. Pages that the book includes
// are one directory below the root of the repository, and chapters of the book's own are three.
(() => {
    const repository = "https://github.com/coord-rs/coord/blob/main/";
    const depth = path_to_root.split("../").length - 1;
    for (const link of document.querySelectorAll('main a[href^="../"]')) {
        const [, ups, rest] = link.getAttribute("href").match(/^((?:\.\.\/)+)(.*)$/);
        const beyond = ups.length / "../".length - depth;
        if (beyond > 0) {
            const below = beyond === 2 ? "docs/" : "";
            link.href = repository + below + rest.replace(/\.html(?=#|$)/, ".md");
        }
    }
})();
