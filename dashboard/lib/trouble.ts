/** Problems that affect the whole app: the service cannot be reached, or too many requests. Calls report them, a banner shows them. */
import { createStore } from './store.ts';

export type Trouble = { offline: boolean /** Epoch milliseconds; null: no need to wait. */; waitUntil: number | null };
export const trouble = createStore<Trouble>({ offline: false, waitUntil: null });

export const tellReached = (): void => {
  if (trouble.get().offline) trouble.set({ ...trouble.get(), offline: false });
};
export const tellOffline = (): void => {
  if (!trouble.get().offline) trouble.set({ ...trouble.get(), offline: true });
};
export const tellTooMany = (seconds: number): void => trouble.set({ ...trouble.get(), waitUntil: Date.now() + seconds * 1_000 });
