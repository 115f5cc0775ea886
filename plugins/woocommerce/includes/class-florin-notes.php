<?php
/**
 * The words of order notes.
 *
 * @package Florin
 */

defined( 'ABSPATH' ) || exit;

final class Florin_Notes {
	/**
	 * A note about a refund, as HTML.
	 *
	 * @param array $refund A refund as the API returns it.
	 * @return string
	 */
	public static function of_refund( array $refund ) {
		$amount      = self::amount( $refund['amount'] ) . ' ' . $refund['currency'];
		$transaction = is_string( $refund['transaction_hash'] ) ? $refund['transaction_hash'] : '';
		return esc_html( self::test( $refund ) . self::refund_sentence( $refund['status'], $amount, $transaction ) ) . ' ' . self::link( $refund['payment_id'], $refund['mode'] );
	}

	/**
	 * @param string $status      Status of the refund.
	 * @param string $amount      Amount and coin.
	 * @param string $transaction Transaction ID, or an empty string.
	 * @return string
	 */
	private static function refund_sentence( $status, $amount, $transaction ) {
		switch ( $status ) {
			case 'sent':
				/* translators: 1: amount and coin, 2: transaction ID */
				return sprintf( __( 'Refund sent: %1$s in transaction %2$s. It is waiting for confirmations.', 'florin-payments' ), $amount, $transaction );
			case 'confirmed':
				/* translators: 1: amount and coin, 2: transaction ID */
				return sprintf( __( 'Refund confirmed: the customer received %1$s in transaction %2$s.', 'florin-payments' ), $amount, $transaction );
			case 'canceled':
				/* translators: %s: amount and coin */
				return sprintf( __( 'Refund canceled in Florin: the customer was not paid %s. Delete the refund in this order. If the customer should still get the money, refund it again.', 'florin-payments' ), $amount );
			default:
				if ( '' === $transaction ) {
					/* translators: %s: amount and coin */
					return sprintf( __( 'Refund failed: the customer was not paid %s. Open Florin to see the reason, and send the refund again or cancel it there.', 'florin-payments' ), $amount );
				}
				/* translators: 1: amount and coin, 2: transaction ID */
				return sprintf( __( 'Refund failed: the customer was not paid %1$s by transaction %2$s. Open Florin to see the reason, and send the refund again or cancel it there.', 'florin-payments' ), $amount, $transaction );
		}
	}

	/**
	 * @param array $of A payment or refund as the API returns it.
	 * @return string
	 */
	private static function test( array $of ) {
		return 'test' === $of['mode'] ? __( '[TEST]', 'florin-payments' ) . ' ' : '';
	}

	/**
	 * A note about a payment, as HTML.
	 *
	 * @param string $kind    Kind of note, from Florin_Decisions.
	 * @param array  $payment A payment as the API returns it.
	 * @param string $total   What the order costs now.
	 * @return string
	 */
	public static function text( $kind, array $payment, $total = '' ) {
		return esc_html( self::test( $payment ) . self::sentence( $kind, $payment, $total ) ) . ' ' . self::link( $payment['id'], $payment['mode'] );
	}

	/**
	 * @param string $kind    Kind of note.
	 * @param array  $payment A payment as the API returns it.
	 * @param string $total   What the order costs now.
	 * @return string
	 */
	private static function sentence( $kind, array $payment, $total ) {
		$coin     = self::coin( $payment );
		// Before it is in a block, money is only announced.
		$came     = Florin_Amounts::is_some( $payment['amount_received'] ) || ! isset( $payment['amount_announced'] ) ? $payment['amount_received'] : $payment['amount_announced'];
		$received = self::amount( $came ) . ' ' . $coin;
		$held     = self::held( $payment );
		switch ( $kind ) {
			case 'processing':
				/* translators: %s: amount and coin */
				return sprintf( __( 'Payment received (%s). Waiting for confirmations; do not ship yet.', 'florin-payments' ), $received );
			case 'completed':
				/* translators: %s: amount and coin */
				return sprintf( __( 'Payment confirmed (%s).', 'florin-payments' ), $received );
			case 'expired':
				return __( 'The time to pay ended and no money arrived.', 'florin-payments' );
			case 'failed':
				return __( 'The payment failed: no money that counts arrived.', 'florin-payments' );
			case 'cancelled':
				return __( 'The payment was canceled.', 'florin-payments' );
			case 'underpaid':
				/* translators: 1: amount and coin received, 2: amount that is missing */
				return sprintf( __( 'The customer paid too little: %1$s arrived, %2$s is missing. Accept or refund the payment in Florin.', 'florin-payments' ), $received, self::amount( $payment['amount_remaining'] ) . ' ' . $coin );
			case 'partial':
				/* translators: 1: amount and coin received, 2: amount that is missing */
				return sprintf( __( 'A part of the payment arrived (%1$s). The customer can still pay the rest (%2$s).', 'florin-payments' ), $received, self::amount( $payment['amount_remaining'] ) . ' ' . $coin );
			case 'overpaid':
				/* translators: %s: amount and coin */
				return sprintf( __( 'The customer paid %s too much. You can refund the difference.', 'florin-payments' ), self::amount( $payment['amount_overpaid'] ) . ' ' . $coin );
			case 'late':
				/* translators: %s: amount and coin */
				return sprintf( __( 'Late payment: %s arrived after the time to pay had ended. It does not count yet, and this order was not changed. Accept or refund it in Florin.', 'florin-payments' ), $held );
			case 'paid_after_cancel':
				/* translators: %s: amount and coin */
				return sprintf( __( 'Payment after cancellation: %s arrived. It does not count yet, and this order was not changed. Accept or refund it in Florin.', 'florin-payments' ), $held );
			case 'wrong_token':
				return __( 'The customer sent another coin than the one asked for. It does not count yet. Accept or refund it in Florin.', 'florin-payments' );
			case 'wrong_network':
				return __( 'The customer sent the money on another network. It does not count yet. Accept or refund it in Florin.', 'florin-payments' );
			case 'kept':
				return __( 'Florin did not cancel this payment: money has arrived or may be on its way. Look at it in Florin before you cancel or ship this order.', 'florin-payments' );
			case 'replaced':
				return __( 'The customer’s transaction was replaced, or dropped by the network, before it was confirmed. Do not ship; the payment is open again.', 'florin-payments' );
			case 'reorged':
				return __( 'WARNING: The network reversed the payment of this order. Stop the shipment if you can. If the payment is confirmed again, a note will say so.', 'florin-payments' );
			case 'restored':
				return __( 'The payment of this order is confirmed again.', 'florin-payments' );
			case 'second':
				/* translators: %s: amount and coin */
				return sprintf( __( 'Second payment: the customer paid %s again although the order was paid. Refund it in Florin.', 'florin-payments' ), $received );
			case 'refunded':
				/* translators: %s: amount and coin */
				return sprintf( __( 'Money arrived for a refunded order: %s. This order was not changed. Refund the payment in Florin.', 'florin-payments' ), $received );
			case 'elsewhere':
				/* translators: %s: amount and coin */
				return sprintf( __( 'The customer paid %s in Florin, but this order does not wait for that payment any more. It was not changed. Refund the payment in Florin, or complete the order yourself.', 'florin-payments' ), $received );
			case 'returned':
				/* translators: %s: amount and coin */
				return sprintf( __( 'Payment confirmed (%s), but a refund of it was requested or sent in Florin before, so this order was not completed. Look at the payment in Florin before you ship. Complete the order yourself, or cancel it.', 'florin-payments' ), $received );
			case 'after_cancel':
				/* translators: %s: amount and coin */
				return sprintf( __( 'The customer paid %s for this canceled order. It is on hold and nothing was shipped or completed: complete it yourself, or cancel it and refund the payment in Florin.', 'florin-payments' ), $received );
			default:
				/* translators: 1: amount and coin, 2: total that was paid, 3: total of the order */
				return sprintf( __( 'Payment confirmed (%1$s), but it was for another total: %2$s were paid, and this order costs %3$s now. Compare both before you ship. Complete the order yourself, or return money with Refund in this order.', 'florin-payments' ), $received, self::asked( $payment ), $total );
		}
	}

	/**
	 * What a payment asks for, such as "25.50 EUR".
	 *
	 * @param array $payment A payment as the API returns it.
	 * @return string
	 */
	public static function asked( array $payment ) {
		return isset( $payment['currency_fiat'] ) ? $payment['amount_fiat'] . ' ' . $payment['currency_fiat'] : $payment['amount_usd'] . ' USD';
	}

	/**
	 * Where the merchant finds a payment, as HTML.
	 *
	 * @param string $id   The payment.
	 * @param string $mode "live" or "test".
	 * @return string
	 */
	public static function link( $id, $mode ) {
		$url = Florin_Connection::url() . '/dashboard/' . rawurlencode( $mode ) . '/payments/' . rawurlencode( $id );
		return '<a href="' . esc_url( $url ) . '">' . esc_html__( 'Open the payment in Florin', 'florin-payments' ) . '</a>';
	}

	/**
	 * @param array $payment A payment as the API returns it.
	 * @return string
	 */
	private static function coin( array $payment ) {
		return is_string( $payment['currency'] ) ? $payment['currency'] : '';
	}

	/**
	 * @param array $payment A payment as the API returns it.
	 * @return string
	 */
	private static function held( array $payment ) {
		$usd = is_string( $payment['amount_held_usd'] ) ? ' (' . $payment['amount_held_usd'] . ' USD)' : '';
		return self::amount( $payment['amount_held'] ) . ' ' . self::coin( $payment ) . $usd;
	}

	/**
	 * @param mixed $amount Decimal text.
	 * @return string
	 */
	private static function amount( $amount ) {
		return (string) Florin_Amounts::normal( $amount );
	}
}
