/** A signing secret with a copy button. */
import { CopyButton } from '../../ui/values.tsx';

export const SecretBox = ({ secret }: { secret: string }) => (
  <p className="flex items-center justify-between gap-2 rounded-lg bg-raised p-3 text-sm">
    <code className="break-all">{secret}</code>
    <CopyButton value={secret} label="Copy signing secret" />
  </p>
);
