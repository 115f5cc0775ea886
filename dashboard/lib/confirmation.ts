/** Asks the user to confirm their identity. The dialog itself is in the shell. */
import { createStore } from './store.ts';

export const confirmation = createStore<((confirmed: boolean) => void) | null>(null);

/** Opens the dialog. Resolves to true when the code, passkey or password was correct. */
export const askConfirmation = (): Promise<boolean> =>
  new Promise((resolve) => {
    confirmation.get()?.(false);
    confirmation.set((confirmed) => {
      confirmation.set(null);
      resolve(confirmed);
    });
  });
