/** The SDK, bound to the manifest. */
import { FileHelper, StartSdk, z } from '@start9labs/start-sdk'
import { manifest } from './manifest'

export const sdk = StartSdk.of().withManifest(manifest).build(true)

/** What this package decides: the code that creates the first account, and the address that shops and customers use. */
export const settings = FileHelper.json(
  { base: sdk.volumes.main, subpath: 'startos.json' },
  z.object({ setupToken: z.string(), publicUrl: z.string() }),
)
