/** What operators run: backup and restore, doctor, rotation of the secret key. */
export { APP_FOLDERS, fileExists, findApp, hashSigner, nameOfBuild, SIGNER_FILE } from './app-build.ts';
export {
  alertBackup,
  BackupError,
  type BackupResult,
  type RestoreResult,
  readInstall,
  restoreBackup,
  writeBackup,
} from './backup.ts';
export { diagnose, verifyAddresses } from './doctor.ts';
export type { Finding } from './range-findings.ts';
export { findNewer } from './releases.ts';
export { readInstallKey } from './seal.ts';
export { acceptKey, openSecrets } from './secret-key.ts';
export { upgrade } from './upgrade.ts';
export { florinVersion, readOrigin, readVersion } from './version.ts';
