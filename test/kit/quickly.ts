/** How tests start Node: without looking for links, which neither the code nor the packages contain, and with what it loads first. */
export const QUICKLY: readonly string[] = [
  '--disable-warning=ExperimentalWarning',
  '--preserve-symlinks',
  `--import=${import.meta.resolve('./test-hooks.ts')}`,
];
