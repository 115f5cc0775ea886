/** How tests start Node: with what it loads first. */
export const QUICKLY: readonly string[] = ['--disable-warning=ExperimentalWarning', `--import=${import.meta.resolve('./test-hooks.ts')}`];
