/** Text for machines: in a box that copies it, and several ways of saying the same as tabs. */
import { Tabs } from '@base-ui/react/tabs';
import { CopyButton } from './values.tsx';

/** Wraps instead of scrolling: all of it can be read at any width. */
export const Code = ({ text, label }: { text: string; label: string }) => (
  <div className="relative">
    <pre className="min-h-10 rounded-lg bg-raised py-2.5 pr-11 pl-3 font-mono text-[13px] leading-5 wrap-anywhere whitespace-pre-wrap text-ink">
      {text}
    </pre>
    <div className="absolute top-1.5 right-1.5">
      <CopyButton value={text} label={label} />
    </div>
  </div>
);

export const CodeTabs = ({ label, tabs }: { label: string; tabs: readonly { name: string; text: string }[] }) => (
  <Tabs.Root defaultValue={tabs[0]!.name} className="grid gap-2">
    <Tabs.List aria-label={label} className="flex flex-wrap gap-1">
      {tabs.map(({ name }) => (
        <Tabs.Tab
          key={name}
          value={name}
          className="rounded-md px-2.5 py-1 text-sm text-soft hover:text-ink data-active:bg-raised data-active:font-medium data-active:text-ink"
        >
          {name}
        </Tabs.Tab>
      ))}
    </Tabs.List>
    {tabs.map(({ name, text }) => (
      <Tabs.Panel key={name} value={name}>
        <Code text={text} label={`Copy ${name}`} />
      </Tabs.Panel>
    ))}
  </Tabs.Root>
);

/** JSON with indents, as text that is no JSON stays. */
export function prettyJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
