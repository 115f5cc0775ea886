/** The page around the signer. It sends nothing: its security policy forbids every connection. */
import { FileError, MAX_SIGNING_BYTES, readSigningFile } from '../src/core/signing-file.ts';
import { showCodes } from './codes.ts';
import { startScan } from './scan.ts';
import { SignerError } from './secret.ts';
import { checkAddresses, describeFile, type Review, signInSteps } from './sign.ts';
import { finishInSlices } from './steps.ts';

const find = <T extends HTMLElement>(id: string): T => document.getElementById(id) as T;
const [file, text, destination, recipients, fee, secret, passphrase, signed] = [
  find<HTMLInputElement>('file'),
  find<HTMLTextAreaElement>('text'),
  find<HTMLTextAreaElement>('destination'),
  find<HTMLTextAreaElement>('recipients'),
  find<HTMLInputElement>('fee'),
  find<HTMLTextAreaElement>('secret'),
  find<HTMLInputElement>('passphrase'),
  find<HTMLTextAreaElement>('signed'),
];
let content = '';
let saved = '';
let stopCodes: (() => void) | null = null;
let stopScan: (() => void) | null = null;

const show = (id: string, visible: boolean): void => {
  find(id).hidden = !visible;
};
function clearSecret(): void {
  secret.value = '';
  passphrase.value = '';
}
/** Shows or hides the codes of the signed file. */
function toggleCodes(wanted: boolean): void {
  stopCodes?.();
  stopCodes = wanted ? showCodes(signed.value, find('codes')) : null;
  if (wanted && stopCodes === null) find('codes').textContent = 'This file is too large for QR codes. Save it instead.';
  else if (!wanted) find('codes').replaceChildren();
  find('show').textContent = stopCodes ? 'Hide QR codes' : 'Show as QR codes';
}
/** Says what is wrong, below what it is about. */
function sayFault(fault: string, below: HTMLElement): void {
  below.after(find('error'));
  find('error').textContent = fault;
  show('error', true);
}
function fail(error: unknown): void {
  const field = error instanceof SignerError && error.field !== null ? find(error.field) : null;
  // Until a file is shown, what is wrong is the one that was chosen.
  const place = find(find('sign').hidden ? 'load' : 'progress');
  if (error instanceof FileError) sayFault(`The file cannot be read: ${error.message}.`, find('load'));
  else if (error instanceof SignerError) sayFault(error.message, field?.parentElement ?? place);
  else sayFault('The file cannot be signed: it is damaged.', place);
  field?.focus();
}
/** Turns the camera on or off. */
function toggleScan(wanted: boolean): void {
  stopScan?.();
  stopScan = null;
  show('camera', wanted);
  find('scan').textContent = wanted ? 'Stop the camera' : 'Scan with the camera';
  if (!wanted) return;
  show('error', false);
  find('seen').textContent = 'Hold the codes that the dashboard shows in front of the camera.';
  stopScan = startScan(find<HTMLVideoElement>('video'), {
    tell: (seen) => {
      find('seen').textContent = seen;
    },
    done: readContent,
    fail: (fault) => {
      toggleScan(false);
      sayFault(fault, find('load'));
    },
  });
}

function showFacts(review: Review): void {
  const facts = find('facts');
  const row = (name: string, value: string) => {
    const [dt, dd] = [document.createElement('dt'), document.createElement('dd')];
    dt.textContent = name;
    dd.textContent = value;
    facts.append(dt, dd);
  };
  facts.replaceChildren();
  row('What', review.title);
  if (review.network !== 'mainnet')
    row(
      'Network',
      review.isReal
        ? `${review.network}. Treat this as real money: the signatures may also be valid on another network.`
        : `${review.network} (not real money)`,
    );
  for (const { what, to, amount } of review.destinations) row(what, `${to} receives ${amount}`);
  row('Total', review.total);
  row('Network fee, at most', review.fee);
  row(
    'Spends from',
    `${review.inputs} ${review.inputs === 1n ? 'input' : 'inputs'} in ${review.transactions} ${review.transactions === 1 ? 'transaction' : 'transactions'}`,
  );
  if (review.together > 0) row('Pay together', `${review.together} deposit addresses of this wallet pay what one alone cannot`);
  if (review.signers.of > 1)
    row(
      'Signers',
      `${review.signers.required} of ${review.signers.of} keys have to sign. Yours is one of them; the dashboard shows who is missing.`,
    );
  row('File', review.id);
}

function readContent(given: string): void {
  // The secret was entered for another file.
  clearSecret();
  toggleScan(false);
  toggleCodes(false);
  show('error', false);
  show('result', false);
  try {
    const review = describeFile(readSigningFile(given.trim()));
    content = given.trim();
    showFacts(review);
    show('review', true);
    show('sign', true);
    show('own', review.paysOwn);
    show('others', review.paysOthers);
    show('amounts', review.paysPayouts);
    show('high', review.hasHighFee);
    [destination.value, recipients.value, fee.value] = ['', '', ''];
    (review.paysOwn ? destination : recipients).focus();
  } catch (error) {
    show('review', false);
    show('sign', false);
    fail(error);
  }
}

file.addEventListener('change', () => {
  const [chosen] = file.files ?? [];
  if (!chosen) return;
  if (chosen.size > MAX_SIGNING_BYTES) return fail(new FileError('it is too large'));
  void chosen.text().then(readContent, fail);
});
find('read').addEventListener('click', () => readContent(text.value));
/** Nothing else can be done while it signs. */
function setBusy(isBusy: boolean): void {
  for (const id of ['load', 'review', 'sign']) find(id).inert = isBusy;
  show('progress', isBusy);
}

function showSigned({ text: result, review }: { text: string; review: Review }): void {
  signed.value = result;
  URL.revokeObjectURL(saved);
  saved = URL.createObjectURL(new Blob([result], { type: 'application/json' }));
  const link = find<HTMLAnchorElement>('save');
  link.href = saved;
  link.download = `${review.id}-signed.json`;
  for (const id of ['review', 'sign']) show(id, false);
  show('result', true);
  link.focus();
}

async function sign(): Promise<void> {
  show('error', false);
  const addresses = { destination: destination.value, recipients: recipients.value, fee: fee.value };
  find('progress').textContent = 'Checking the file';
  setBusy(true);
  try {
    // Before the secret is read.
    checkAddresses(readSigningFile(content), addresses);
    const steps = signInSteps({ content, secret: secret.value, passphrase: passphrase.value, ...addresses });
    const result = await finishInSlices(steps, ({ what, done, of }) => {
      find('progress').textContent = `${what} ${done} of ${of}`;
    });
    clearSecret();
    setBusy(false);
    showSigned(result);
  } catch (error) {
    setBusy(false);
    // A person corrects an address or a word and tries again. Nothing corrects the file.
    if (!(error instanceof SignerError && error.field)) clearSecret();
    fail(error);
  }
}
find('sign').addEventListener('submit', (event) => {
  event.preventDefault();
  void sign();
});
find('clear').addEventListener('click', clearSecret);
find('scan').addEventListener('click', () => toggleScan(stopScan === null));
find('copy').addEventListener('click', () => {
  signed.select();
  void navigator.clipboard?.writeText(signed.value).catch(() => {});
});
find('show').addEventListener('click', () => toggleCodes(stopCodes === null));
find('again').addEventListener('click', () => {
  toggleCodes(false);
  URL.revokeObjectURL(saved);
  [text.value, signed.value, content, file.value] = ['', '', '', ''];
  show('result', false);
  text.focus();
});
addEventListener('pagehide', () => {
  clearSecret();
  toggleScan(false);
});
const sayNetwork = () => {
  find('network').textContent = navigator.onLine
    ? 'This computer is online. Save this page, disconnect, and open it from the disk before you enter a secret.'
    : 'This computer is offline.';
};
addEventListener('online', sayNetwork);
addEventListener('offline', sayNetwork);
sayNetwork();
