/** Dialogs whose code is loaded when they open. */
import { type ComponentProps, lazy, Suspense } from 'react';
import type { Ask as AnyAsk, Dialog as AnyDialog } from '../../ui/dialog.tsx';

const Loaded = lazy(() => import('../../ui/dialog.tsx').then((module) => ({ default: module.Dialog })));
const LoadedAsk = lazy(() => import('../../ui/dialog.tsx').then((module) => ({ default: module.Ask })));

export const Dialog = (props: ComponentProps<typeof AnyDialog>) =>
  props.open && (
    <Suspense>
      <Loaded {...props} />
    </Suspense>
  );
export const Ask = (props: ComponentProps<typeof AnyAsk>) =>
  props.open && (
    <Suspense>
      <LoadedAsk {...props} />
    </Suspense>
  );
