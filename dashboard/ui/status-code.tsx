/** An HTTP status with an icon and a color. */
import { Badge } from './values.tsx';

export const StatusCode = ({ status }: { status: number }) => (
  <Badge tone={status < 400 ? 'good' : status < 500 ? 'warn' : 'bad'} icon={status < 400 ? 'check' : 'alert'}>
    {String(status)}
  </Badge>
);
