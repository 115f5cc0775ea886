/** A live preview of the payment page: any state, phone or desktop, light or dark. */
import { useEffect, useState } from 'react';
import { COINS } from '../../generated/api.ts';
import { useMode } from '../../lib/hooks.ts';
import { Choice, Segments } from '../../ui/form.tsx';
import { Card } from '../../ui/states.tsx';
import type { Draft } from './draft.ts';

const WIDTHS = { mobile: 390, desktop: 1024 } as const;
/** The preview reloads after typing pauses for this long. */
const PAUSE_MS = 300;

export function Preview({ draft, states }: { draft: Draft; states: readonly string[] }) {
  const mode = useMode();
  const [state, setState] = useState('choose');
  const [device, setDevice] = useState<keyof typeof WIDTHS>('mobile');
  const [theme, setTheme] = useState<'light' | 'dark'>('light');
  const query = new URLSearchParams({
    ...{ state, theme, payer_cancel: draft.payer_cancel ? 'yes' : 'no' },
    ...(draft.accent && { accent: draft.accent }),
    ...(draft.support_contact && { support: draft.support_contact }),
    ...(draft.locale && { locale: draft.locale }),
    currencies: (draft.currencies ?? COINS).join(','),
  }).toString();
  const [shown, setShown] = useState(query);
  useEffect(() => {
    const timer = setTimeout(() => setShown(query), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [query]);
  const [room, setRoom] = useState(0);
  const [box, setBox] = useState<HTMLDivElement | null>(null);
  useEffect(() => {
    if (!box) return;
    const observer = new ResizeObserver(() => setRoom(box.clientWidth));
    observer.observe(box);
    return () => observer.disconnect();
  }, [box]);
  const width = WIDTHS[device];
  const scale = room > 0 ? Math.min(1, room / width) : 0;
  const height = device === 'mobile' ? 720 : 900;
  return (
    <div className="xl:sticky xl:top-4">
      <Card title="Preview">
        <div className="grid gap-3 p-4">
          <Choice
            label="Payment state"
            value={state}
            onChange={(event) => setState(event.target.value)}
            options={states.map((value) => ({ value, label: value.charAt(0).toUpperCase() + value.slice(1) }))}
          />
          <div className="flex flex-wrap gap-2">
            <Segments
              label="Device"
              value={device}
              onChange={setDevice}
              options={[
                { value: 'mobile', label: 'Mobile' },
                { value: 'desktop', label: 'Desktop' },
              ]}
            />
            <Segments
              label="Preview theme"
              value={theme}
              onChange={setTheme}
              options={[
                { value: 'light', label: 'Light' },
                { value: 'dark', label: 'Dark' },
              ]}
            />
          </div>
          <div ref={setBox} className="w-full overflow-hidden rounded-lg border border-line" style={{ height: height * scale || 400 }}>
            {scale > 0 && (
              // Inert: the preview cannot be clicked or focused.
              <iframe
                key={device}
                inert
                tabIndex={-1}
                title="Payment page preview"
                src={`/dashboard/api/${mode}/settings/checkout/preview?${shown}`}
                className="origin-top-left border-0"
                style={{ width, height, transform: `scale(${scale})` }}
              />
            )}
          </div>
          <p className="text-sm text-soft">Sample payments. Changes appear here before you save them.</p>
        </div>
      </Card>
    </div>
  );
}
