/** A button for the merchant's own pages: what it asks for, how it looks, and the HTML to copy. */
import { useState } from 'react';
import { useApi, useMode } from '../../lib/hooks.ts';
import { Field } from '../../ui/field.tsx';
import { Note, Tick } from '../../ui/form.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Card, Pending } from '../../ui/states.tsx';
import { CopyButton } from '../../ui/values.tsx';

const escaped = (text: string): string =>
  text.replace(/[&<>"]/g, (char) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[char]!);
/** Black or white, whichever can be read on the colour. */
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
  const [text, setText] = useState('Pay with crypto');
  const [invoice, setInvoice] = useState('');
  const [colour, setColour] = useState(accent);
  const [inline, setInline] = useState(false);
  const given = key.trim();
  const secret = /(^|_)sk_/.test(given);
  const isPublic = /^(pk_(live|test)|(live|test)_pk)_\w+$/.test(given);
  const otherMode = isPublic && !given.includes(mode);
  const shown = /^#[0-9a-f]{6}$/i.test(colour) ? colour : accent;
  const ink = inkOn(shown);
  const take = (value: string) => setKey(/(^|_)sk_/.test(value.trim()) && value.trim().length > 20 ? 'sk_' : value);
  const attributes = [
    `public-key="${escaped(isPublic ? given : `pk_${mode}_…`)}"`,
    `amount-usd="${escaped(amount.trim())}"`,
    ...(invoice.trim() ? [`invoice-id="${escaped(invoice.trim())}"`] : []),
    ...(inline ? ['inline'] : []),
    `style="--florin-accent:${shown};--florin-on:${ink}"`,
  ];
  const code = `<script src="${scriptUrl}" async></script>\n<florin-button ${attributes.join(' ')}>\n  ${escaped(text)}\n</florin-button>`;
  return (
    <div className="grid items-start gap-4 lg:grid-cols-2">
      <Card title="The button">
        <div className="grid gap-4 p-4">
          <Field
            label="Public key"
            autoComplete="off"
            spellCheck={false}
            placeholder={`pk_${mode}_…`}
            value={key}
            onChange={(event) => take(event.target.value)}
            hint="It stands on your page for everybody to read. It can create payments and do nothing else."
            fault={
              secret
                ? 'That is a secret key. It was cleared: on a page, anybody could use it. Take the public key, which begins with pk_.'
                : otherMode
                  ? `This key is not one of ${mode} mode.`
                  : null
            }
          />
          <Field label="Amount in US dollars" inputMode="decimal" value={amount} onChange={(event) => setAmount(event.target.value)} />
          <Field label="Text on the button" maxLength={60} value={text} onChange={(event) => setText(event.target.value)} />
          <Field label="Invoice (optional)" maxLength={100} value={invoice} onChange={(event) => setInvoice(event.target.value)} />
          <Field label="Colour" type="color" className="h-10" value={shown} onChange={(event) => setColour(event.target.value)} />
          <Tick
            label="Show the payment in the page itself"
            hint="Otherwise it opens over the page; on small screens the payment page itself opens."
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
              Whoever looks at your page can change the amount. Check <code>amount_usd</code> in the webhook before you deliver.
            </Note>
          </div>
        </Card>
        <Card title="Where it works">
          <div className="grid gap-3 p-4 text-sm">
            {origins.length === 0 ? (
              <Note tone="warn">
                No page is allowed yet. Name the origins of your pages in the <ModeLink to="checkout">checkout settings</ModeLink>, or the
                browser refuses the button.
              </Note>
            ) : (
              <>
                <p className="text-soft">
                  Pages of these origins may create payments with your public keys and show the payment page in a frame:
                </p>
                <ul className="grid gap-1">
                  {origins.map((origin) => (
                    <li key={origin}>
                      <code className="break-all">{origin}</code>
                    </li>
                  ))}
                </ul>
                <p>
                  <ModeLink to="checkout">Change the origins</ModeLink>
                </p>
              </>
            )}
          </div>
        </Card>
      </div>
    </div>
  );
}
