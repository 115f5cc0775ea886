/** The page around the signer. It sends nothing: its security policy forbids every connection. */
import { FileError, MAX_SIGNING_BYTES, readSigningFile } from '../src/core/signing-file.ts';
import { showCodes } from './codes.ts';
import { SignerError } from './secret.ts';
import { describeFile, type Review, signFile } from './sign.ts';

const find = <T extends HTMLElement>(id: string): T => document.getElementById(id) as T;
const [file, text, destination, recipients, secret, passphrase, signed] = [
  find<HTMLInputElement>('file'),
  find<HTMLTextAreaElement>('text'),
  find<HTMLTextAreaElement>('destination'),
  find<HTMLTextAreaElement>('recipients'),
  find<HTMLTextAreaElement>('secret'),
  find<HTMLInputElement>('passphrase'),
  find<HTMLTextAreaElement>('signed'),
];
let content = '';
let saved = '';
let stopCodes: (() => void) | null = null;

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
function fail(error: unknown): void {
  const known = error instanceof SignerError || error instanceof FileError;
  find('error').textContent = known
    ? `${error instanceof FileError ? 'The file cannot be read: ' : ''}${error.message}`
    : 'The file cannot be signed: it is damaged.';
  show('error', true);
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
  row('File', review.id);
}

function readContent(given: string): void {
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
    [destination.value, recipients.value] = ['', ''];
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
find('sign').addEventListener('submit', (event) => {
  event.preventDefault();
  show('error', false);
  try {
    const result = signFile({
      content,
      secret: secret.value,
      passphrase: passphrase.value,
      destination: destination.value,
      recipients: recipients.value,
    });
    signed.value = result.text;
    URL.revokeObjectURL(saved);
    saved = URL.createObjectURL(new Blob([result.text], { type: 'application/json' }));
    const link = find<HTMLAnchorElement>('save');
    link.href = saved;
    link.download = `${result.review.id}-signed.json`;
    for (const id of ['review', 'sign']) show(id, false);
    show('result', true);
    link.focus();
  } catch (error) {
    fail(error);
  }
  clearSecret();
});
find('copy').addEventListener('click', () => {
  signed.select();
  void navigator.clipboard?.writeText(signed.value).catch(() => {});
});
find('show').addEventListener('click', () => toggleCodes(stopCodes === null));
find('again').addEventListener('click', () => {
  toggleCodes(false);
  [text.value, signed.value, content, file.value] = ['', '', '', ''];
  show('result', false);
  text.focus();
});
addEventListener('pagehide', clearSecret);
const sayNetwork = () => {
  find('network').textContent = navigator.onLine
    ? 'This computer is online. Save this page, disconnect, and open it from the disk before you enter a secret.'
    : 'This computer is offline.';
};
addEventListener('online', sayNetwork);
addEventListener('offline', sayNetwork);
sayNetwork();
