/** The frame of pages outside the dashboard, such as sign-in: one narrow card. */
import type { ReactNode } from 'react';
import { LanguageChoice } from './language.tsx';

export const Entry = ({ title, lead, children }: { title: string; lead?: string; children: ReactNode }) => (
  <main className="mx-auto grid max-w-md gap-6 px-4 py-16 sm:py-24">
    <p className="text-lg font-semibold tracking-tight">Florin</p>
    <div className="grid gap-5 rounded-xl border border-line bg-card p-6 shadow-sm sm:p-8">
      <div className="grid gap-2">
        <h1>{title}</h1>
        {lead && <p className="text-soft">{lead}</p>}
      </div>
      {children}
    </div>
    <div className="justify-self-center">
      <LanguageChoice />
    </div>
  </main>
);
