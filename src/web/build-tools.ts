/** The packages that build the dashboard and the client package. They are development dependencies: releases contain what they build. */
import { createRequire } from 'node:module';
import { dirname } from 'node:path';

/** Building needs a package that this install left out. The message says what to do. */
export class BuildToolsMissing extends Error {
  override name = 'BuildToolsMissing';
}

/** The folder of a build tool. `product` begins a sentence, such as "The dashboard". */
export function buildToolFolder(tool: 'vite' | 'typescript', { product }: { product: string }): string {
  try {
    return dirname(createRequire(import.meta.url).resolve(`${tool}/package.json`));
  } catch (cause) {
    throw new BuildToolsMissing(
      `${product} is not built, and the tools that build it are not installed: npm leaves them out with --omit=dev and with NODE_ENV=production. ` +
        'Run "npm ci --include=dev && npm run build", or install a release, which contains the built files.',
      { cause },
    );
  }
}
