<?php
/**
 * What a payment means for an order. Pure: it reads nothing and changes nothing.
 *
 * @package Florin
 */

defined( 'ABSPATH' ) || exit;

final class Florin_Decisions {
	/** Order statuses in which nobody paid yet and the order still waits. */
	const OPEN = array( 'pending', 'checkout-draft', 'on-hold', 'failed' );
	/** Exceptions that stand for money that does not count until the merchant decides. */
	const HELD = array( 'late', 'paid_after_cancel', 'wrong_token', 'wrong_network' );

	/**
	 * The steps to take, in order.
	 *
	 * The order's own state decides together with the payment's, so that the same payment can be applied any number of times and in any
	 * order of arrival: a paid order is never moved back by a payment that still waits.
	 *
	 * @param array $payment A payment as the API returns it.
	 * @param array $order   Keys: status (without "wc-"), paid (whether money was booked), total, currency, current (ID of the payment that
	 *                       the customer is asked to pay), booked (ID of the payment that paid it, or an empty string), reversed (whether the network took
	 *                       that money back).
	 * @return array[] Each one of: ['complete'], ['status', new status, kind of note], ['note', kind of note].
	 */
	public static function steps( array $payment, array $order ) {
		$current = $payment['id'] === $order['current'];
		$steps   = array();
		switch ( $payment['status'] ) {
			case 'processing':
				if ( ! $order['paid'] && in_array( $order['status'], self::OPEN, true ) && 'on-hold' !== $order['status'] ) {
					$steps[] = array( 'status', 'on-hold', 'processing' );
				} elseif ( $order['paid'] && $payment['id'] !== $order['booked'] ) {
					$steps[] = array( 'note', 'second' );
				}
				break;
			case 'completed':
				$steps = self::completed( $payment, $order );
				break;
			case 'expired':
				if ( $current && 'pending' === $order['status'] ) {
					$steps[] = array( 'status', 'failed', 'expired' );
				}
				break;
			case 'failed':
				if ( ! $order['paid'] && $current && in_array( $order['status'], self::OPEN, true ) ) {
					// Money that counts but is not enough waits for the merchant; an order without any can be paid again.
					$some    = in_array( 'underpaid', $payment['exceptions'], true );
					$steps[] = array( 'status', $some ? 'on-hold' : 'failed', $some ? 'underpaid' : 'failed' );
				}
				break;
			case 'cancelled':
				if ( ! $order['paid'] && $current && in_array( $order['status'], array( 'pending', 'checkout-draft' ), true ) ) {
					$steps[] = array( 'status', 'cancelled', 'cancelled' );
				}
				break;
			case 'pending':
				// The network dropped or replaced what the customer sent.
				if ( ! $order['paid'] && $current && 'on-hold' === $order['status'] && in_array( 'replaced', $payment['exceptions'], true ) ) {
					$steps[] = array( 'status', 'pending', 'replaced' );
				}
				if ( in_array( 'underpaid', $payment['exceptions'], true ) ) {
					$steps[] = array( 'note', 'partial' );
				}
				break;
		}
		foreach ( self::HELD as $exception ) {
			if ( in_array( $exception, $payment['exceptions'], true ) ) {
				$steps[] = array( 'note', $exception );
			}
		}
		return $steps;
	}

	/**
	 * @param array $payment A completed payment.
	 * @param array $order   As in steps().
	 * @return array[]
	 */
	private static function completed( array $payment, array $order ) {
		if ( in_array( 'reorged', $payment['exceptions'], true ) ) {
			if ( $payment['id'] !== $order['booked'] ) {
				return array( array( 'note', 'reorged' ) );
			}
			return 'processing' === $order['status'] ? array( array( 'status', 'on-hold', 'reorged' ) ) : array( array( 'note', 'reorged' ) );
		}
		$steps = array();
		if ( $payment['id'] === $order['booked'] && $order['reversed'] ) {
			$steps[] = 'on-hold' === $order['status'] ? array( 'status', 'processing', 'restored' ) : array( 'note', 'restored' );
		} elseif ( $order['paid'] ) {
			$steps[] = $payment['id'] === $order['booked'] ? null : array( 'note', 'second' );
		} elseif ( ! self::asks_for( $payment, $order ) ) {
			$steps[] = in_array( $order['status'], self::OPEN, true ) && 'on-hold' !== $order['status']
				? array( 'status', 'on-hold', 'other_total' )
				: array( 'note', 'other_total' );
		} else {
			$steps[] = array( 'complete' );
		}
		if ( in_array( 'overpaid', $payment['exceptions'], true ) ) {
			$steps[] = array( 'note', 'overpaid' );
		}
		return array_values( array_filter( $steps ) );
	}

	/**
	 * Whether the payment was for the present total of the order, which may have been edited since.
	 *
	 * @param array $payment A payment as the API returns it.
	 * @param array $order   As in steps().
	 * @return bool
	 */
	public static function asks_for( array $payment, array $order ) {
		$currency = isset( $payment['currency_fiat'] ) ? $payment['currency_fiat'] : 'USD';
		$amount   = isset( $payment['currency_fiat'] ) ? $payment['amount_fiat'] : $payment['amount_usd'];
		return $currency === $order['currency'] && Florin_Amounts::same( $amount, $order['total'] );
	}
}
