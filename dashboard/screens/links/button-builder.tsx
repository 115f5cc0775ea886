/** A button for the merchant's own pages: its price, how it looks, and the HTML to copy. */
import { useState } from 'react';
import { useApi, useMode } from '../../lib/hooks.ts';
import { AmountField } from '../../ui/amount.tsx';
import { Field } from '../../ui/field.tsx';
import { Note, Tick } from '../../ui/form.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Card, Pending } from '../../ui/states.tsx';
import { CopyButton } from '../../ui/values.tsx';

const escaped = (text: string): string =>
  text.replace(/[&<>"]/g, (char) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[char]!);
/** Black or white, whichever can be read on the color. */
const inkOn = (hex: string): string => {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 1.05 / (0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05) >= 4.5 ? '#ffffff' : '#0b1220';
};

export function ButtonBuilder() {
  const query = useApi('GET /:mode/embed', ['settings', 'embed'], {});
  const { data } = query;
  if (!data)
    return (
      <Card>
        <Pending of={query} />
      </Card>
    );
  return <Builder scriptUrl={data.script_url} origins={data.origins} accent={data.accent ?? '#1b4fd6'} />;
}

function Builder({ scriptUrl, origins, accent }: { scriptUrl: string; origins: readonly string[]; accent: string }) {
  const mode = useMode();
  const [key, setKey] = useState('');
  const [amount, setAmount] = useState('25.00');
  const [currency, setCurrency] = useState('USD');
  const [text, setText] = useState('Pay with crypto');
  const [invoice, setInvoice] = useState('');
  const [color, setColor] = useState(accent);
  const [inline, setInline] = useState(false);
  const given = key.trim();
  const secret = /(^|_)sk_/.test(given);
  const isPublic = /^(pk_(live|test)|(live|test)_pk)_\w+$/.test(given);
  const otherMode = isPublic && !given.includes(mode);
  const shown = /^#[0-9a-f]{6}$/i.test(color) ? color : accent;
  const ink = inkOn(shown);
  const take = (value: string) => setKey(/(^|_)sk_/.test(value.trim()) && value.trim().length > 20 ? 'sk_' : value);
  const attributes = [
    `public-key="${escaped(isPublic ? given : `pk_${mode}_…`)}"`,
    ...(currency === 'USD'
      ? [`amount-usd="${escaped(amount.trim())}"`]
      : [`amount="${escaped(amount.trim())}" currency-fiat="${currency}"`]),
    ...(invoice.trim() ? [`invoice-id="${escaped(invoice.trim())}"`] : []),
    ...(inline ? ['inline'] : []),
    `style="--florin-accent:${shown};--florin-on:${ink}"`,
  ];
  const code = `<script src="${scriptUrl}" async></script>\n<florin-button ${attributes.join(' ')}>\n  ${escaped(text)}\n</florin-button>`;
  return (
    <div className="grid items-start gap-4 lg:grid-cols-2">
      <Card title="Button">
        <div className="grid gap-4 p-4">
          <Field
            label="Public key"
            autoComplete="off"
            spellCheck={false}
            placeholder={`pk_${mode}_…`}
            value={key}
            onChange={(event) => take(event.target.value)}
            hint="This key is public: anyone who opens your page can read it. It can create payments and nothing else."
            fault={
              secret
                ? 'That was a secret key, so it was cleared: anyone who opens your page could use it. Use a public key, which starts with pk_.'
                : otherMode
                  ? `This key does not belong to ${mode} mode.`
                  : null
            }
          />
          <AmountField amount={amount} onAmount={setAmount} currency={currency} onCurrency={setCurrency} />
          <Field label="Button text" maxLength={60} value={text} onChange={(event) => setText(event.target.value)} />
          <Field label="Invoice ID (optional)" maxLength={100} value={invoice} onChange={(event) => setInvoice(event.target.value)} />
          <Field label="Color" type="color" className="h-10" value={shown} onChange={(event) => setColor(event.target.value)} />
          <Tick
            label="Show the payment inline"
            hint="Otherwise it opens in a dialog over your page, or as a full page on small screens."
            checked={inline}
            onChange={(event) => setInline(event.target.checked)}
          />
        </div>
      </Card>
      <div className="grid gap-4">
        <Card title="Preview">
          <div className="grid place-items-center bg-page px-4 py-10">
            <span
              data-preview
              className="inline-block max-w-full rounded-xl px-6 py-2.5 text-base font-semibold break-words"
              style={{ backgroundColor: shown, color: ink }}
            >
              {text || 'Pay with crypto'}
            </span>
          </div>
        </Card>
        <Card title="HTML for your page" action={<CopyButton value={code} label="Copy the HTML" />}>
          <pre className="p-4 font-mono text-xs leading-relaxed whitespace-pre-wrap break-all">{code}</pre>
          <div className="border-t border-line p-4">
            <Note tone="info">
              Anyone can change the amount in their browser. Check <code>{currency === 'USD' ? 'amount_usd' : 'amount_fiat'}</code> in the
              webhook before you deliver.
            </Note>
          </div>
        </Card>
        <Card title="Allowed websites">
          <div className="grid gap-3 p-4 text-sm">
            {origins.length === 0 ? (
              <Note tone="warn">
                No origins are listed, so the button works on every website and opens the payment page in place of yours. To show it over
                your page, and to limit the button to your website, add its origin in the{' '}
                <ModeLink to="checkout">checkout settings</ModeLink>.
              </Note>
            ) : (
              <>
                <p className="text-soft">Pages on these origins can create payments with your public keys and embed the payment page:</p>
                <ul className="grid gap-1">
                  {origins.map((origin) => (
                    <li key={origin}>
                      <code className="break-all">{origin}</code>
                    </li>
                  ))}
                </ul>
                <p>
                  <ModeLink to="checkout">Edit allowed origins</ModeLink>
                </p>
              </>
            )}
          </div>
        </Card>
      </div>
    </div>
  );
}
