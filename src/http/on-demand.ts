/** What the API loads only when somebody asks for it, so that a service that starts loads neither examples nor the text of the reference. */
import type { EventType } from '#core/event';

/** The data of an event of this type about a sample payment. */
export async function sampleData(type: EventType): Promise<object> {
  const { EVENT_EXAMPLES } = await import('./examples.ts');
  return (EVENT_EXAMPLES[type] as { data: object }).data;
}

/** The reference of the API as Markdown, for the service at this URL. */
export async function apiReference(url: string): Promise<string> {
  const { referenceMarkdown } = await import('./reference.ts');
  return referenceMarkdown(url);
}
