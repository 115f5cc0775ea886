/** The part of `@medusajs/framework/types` that the provider uses. */
export type PaymentSessionStatus = 'authorized' | 'captured' | 'pending' | 'requires_more' | 'pending_authorization' | 'error' | 'canceled';
export type PaymentActions =
  | 'authorized'
  | 'captured'
  | 'failed'
  | 'pending'
  | 'requires_more'
  | 'canceled'
  | 'not_supported'
  | 'pending_authorization';
export type BigNumberInput = string | number | { value: string | number } | object;
export type Logger = { warn(message: string): void; error(message: string): void };

type Data = Record<string, unknown>;
type Customer = { email: string; first_name?: string | null; last_name?: string | null };
type Input = { data?: Data; context?: { customer?: Customer; idempotency_key?: string } };
type Output = { data?: Data };
type Priced = Input & { amount: BigNumberInput; currency_code: string };
export type InitiatePaymentInput = Priced;
export type InitiatePaymentOutput = Output & { id: string; status?: PaymentSessionStatus };
export type UpdatePaymentInput = Priced;
export type UpdatePaymentOutput = Output & { status?: PaymentSessionStatus };
export type AuthorizePaymentInput = Input;
export type AuthorizePaymentOutput = Output & { status: PaymentSessionStatus };
export type GetPaymentStatusInput = Input;
export type GetPaymentStatusOutput = AuthorizePaymentOutput;
export type CapturePaymentInput = Input;
export type CapturePaymentOutput = Output;
export type CancelPaymentInput = Input;
export type CancelPaymentOutput = Output;
export type DeletePaymentInput = Input;
export type DeletePaymentOutput = Output;
export type RetrievePaymentInput = Input;
export type RetrievePaymentOutput = Output;
export type RefundPaymentInput = Input & { amount: BigNumberInput };
export type RefundPaymentOutput = Output;
export type ProviderWebhookPayload = { payload: { data: Data; rawData: string | Buffer; headers: Data } };
export type WebhookActionResult = { action: PaymentActions; data?: { session_id: string; amount: string } };
