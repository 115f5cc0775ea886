/** The document of the API as the page shows it. */
import { ask, READ_LIMITS_MS } from '../lib/ask.ts';

type Parameter = { required?: boolean; example?: unknown; examples?: Record<string, { value: unknown; 'x-disabled'?: boolean }> };
type Operation = { parameters?: (Parameter | { $ref: string })[] };
type Document = { components: { parameters: Record<string, Parameter> }; paths: Record<string, Record<string, Operation>> };

/** Scalar would send every example; what may be left out is shown and sent when the reader ticks it. */
function unticked({ example, ...parameter }: Parameter): Parameter {
  return parameter.required || example === undefined
    ? { ...parameter, ...(example !== undefined && { example }) }
    : { ...parameter, examples: { default: { value: example, 'x-disabled': true } } };
}

export async function loadDocument(): Promise<object> {
  const document = JSON.parse((await ask('/openapi.json', {}, READ_LIMITS_MS)).text) as Document;
  const shared = document.components.parameters;
  for (const operation of Object.values(document.paths).flatMap((methods) => Object.values(methods))) {
    operation.parameters &&= operation.parameters.map((given) =>
      unticked('$ref' in given ? shared[given.$ref.slice('#/components/parameters/'.length)]! : given),
    );
  }
  return document;
}
