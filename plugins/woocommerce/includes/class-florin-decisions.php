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
	/** A payment that ended can still be paid late, or be accepted; after this many seconds it is no longer looked at. */
	const FOLLOWED_SECONDS = 2592000;

	/**
	 * The steps to take, in order.
	 *
	 * The order's own state decides together with the payment's, so that the same payment can be applied any number of times and in any
	 * order of arrival. An order is changed only while it is the payment's own: to be paid with Florin, and neither paid, canceled nor
	 * refunded. Everything else is a note; money for a canceled order puts it on hold, once.
	 *
	 * @param array $payment A payment as the API returns it.
	 * @param array $order   Keys: own (whether it is to be paid with Florin), status (without "wc-"), paid (whether money was booked), total, currency,
	 *                       current (ID of the payment that the customer is asked to pay), booked (ID of the payment that paid it, or an empty
	 *                       string), awaited (ID of the payment whose unconfirmed money put it on hold, or an empty string), left (IDs of the completed payments that the merchant was asked about), reversed (whether the network
	 *                       took the booked money back).
	 * @return array[] Each one of: ['complete'], ['status', new status, kind of note], ['note', kind of note], ['cancel'].
	 */
	public static function steps( array $payment, array $order ) {
		$open    = $order['own'] && ! $order['paid'] && in_array( $order['status'], self::OPEN, true );
		$current = $open && $payment['id'] === $order['current'];
		$steps   = array();
		switch ( $payment['status'] ) {
			case 'processing':
				if ( ! $open ) {
					$steps[] = $payment['id'] === $order['booked'] ? null : array( 'note', self::unexpected( $order ) );
				} else {
					$steps[] = 'on-hold' === $order['status'] ? array( 'note', 'processing' ) : array( 'status', 'on-hold', 'processing' );
				}
				break;
			case 'completed':
				$steps = self::completed( $payment, $order, $open );
				break;
			case 'expired':
				// Also when the network dropped what the customer sent, and nothing told so before the time to pay ended.
				if ( $current && ( 'pending' === $order['status'] || self::is_gone( $payment, $order ) ) ) {
					$steps[] = array( 'status', 'failed', 'expired' );
				}
				break;
			case 'failed':
				// Money that counts but is not enough waits for the merchant, whatever became of the order; an order without any can be paid again.
				if ( in_array( 'underpaid', $payment['exceptions'], true ) ) {
					$steps[] = $current ? array( 'status', 'on-hold', 'underpaid' ) : array( 'note', 'underpaid' );
				} elseif ( $current ) {
					$steps[] = array( 'status', 'failed', 'failed' );
				}
				break;
			case 'cancelled':
				if ( $current && in_array( $order['status'], array( 'pending', 'checkout-draft' ), true ) ) {
					$steps[] = array( 'status', 'cancelled', 'cancelled' );
				}
				break;
			case 'pending':
				// The network dropped or replaced what the customer sent.
				if ( $current && self::is_gone( $payment, $order ) ) {
					$steps[] = array( 'status', 'pending', 'replaced' );
				}
				if ( ! $current && ! self::has_money( $payment ) ) {
					// Nobody should pay it any more: the order has another payment, or none is needed.
					$steps[] = array( 'cancel' );
				} elseif ( ! $current || in_array( 'underpaid', $payment['exceptions'], true ) ) {
					$steps[] = array( 'note', 'partial' );
				}
				break;
		}
		foreach ( self::HELD as $exception ) {
			if ( in_array( $exception, $payment['exceptions'], true ) ) {
				$steps[] = array( 'note', $exception );
			}
		}
		return array_values( array_filter( $steps ) );
	}

	/**
	 * Whether an order waits for money that the network does not have any more.
	 *
	 * @param array $payment A payment that is not paid.
	 * @param array $order   As in steps().
	 * @return bool
	 */
	private static function is_gone( array $payment, array $order ) {
		return 'on-hold' === $order['status'] && ! self::has_money( $payment )
			&& ( $payment['id'] === $order['awaited'] || in_array( 'replaced', $payment['exceptions'], true ) );
	}

	/**
	 * @param array $payment A completed payment.
	 * @param array $order   As in steps().
	 * @param bool  $open    Whether the order waits for this money.
	 * @return array[]
	 */
	private static function completed( array $payment, array $order, $open ) {
		$booked = $payment['id'] === $order['booked'];
		if ( in_array( 'reorged', $payment['exceptions'], true ) ) {
			return array( $booked && 'processing' === $order['status'] ? array( 'status', 'on-hold', 'reorged' ) : array( 'note', 'reorged' ) );
		}
		$steps = array();
		if ( $booked && $order['reversed'] ) {
			$steps[] = 'on-hold' === $order['status'] ? array( 'status', 'processing', 'restored' ) : array( 'note', 'restored' );
		} elseif ( in_array( $payment['id'], $order['left'], true ) ) {
			return array();
		} elseif ( 'cancelled' === $order['status'] && $order['own'] && ! $order['paid'] ) {
			$steps[] = self::is_returned( $payment ) ? array( 'note', 'returned' ) : array( 'status', 'on-hold', 'after_cancel' );
		} elseif ( ! $open ) {
			$steps[] = $booked && $order['paid'] ? null : array( 'note', self::unexpected( $order ) );
		} elseif ( self::is_returned( $payment ) ) {
			$steps[] = array( 'status', 'on-hold', 'returned' );
		} elseif ( ! self::asks_for( $payment, $order ) ) {
			$steps[] = array( 'status', 'on-hold', 'other_total' );
		} else {
			$steps[] = array( 'complete' );
		}
		if ( in_array( 'overpaid', $payment['exceptions'], true ) ) {
			$steps[] = array( 'note', 'overpaid' );
		}
		return $steps;
	}

	/**
	 * Whether more of a payment was returned than the customer sent too much, or will be: the merchant refunded it in Florin before the shop
	 * heard of the money.
	 *
	 * @param array $payment A completed payment, with the key "returning" if a refund of it is not sent yet.
	 * @return bool
	 */
	private static function is_returned( array $payment ) {
		$refunded = isset( $payment['amount_refunded'] ) ? $payment['amount_refunded'] : '0';
		if ( in_array( 'overpaid', $payment['exceptions'], true ) ) {
			return Florin_Amounts::exceeds( $refunded, $payment['amount_overpaid'] );
		}
		return Florin_Amounts::is_some( $refunded ) || ! empty( $payment['returning'] );
	}

	/**
	 * @param array $order As in steps(), and not waiting for money.
	 * @return string Kind of note.
	 */
	private static function unexpected( array $order ) {
		if ( 'refunded' === $order['status'] ) {
			return 'refunded';
		}
		return $order['paid'] ? 'second' : 'elsewhere';
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
		$total    = Florin_Amounts::in( $order['total'], $order['currency'] );
		return null !== $total && $currency === $order['currency'] && Florin_Amounts::in( $amount, $currency ) === $total;
	}

	/**
	 * Whether money came to a payment, whether it counts or not.
	 *
	 * @param array $payment A payment as the API returns it.
	 * @return bool
	 */
	public static function has_money( array $payment ) {
		return in_array( $payment['status'], array( 'processing', 'completed' ), true )
			|| Florin_Amounts::is_some( $payment['amount_received'] )
			|| Florin_Amounts::is_some( $payment['amount_held'] )
			|| ( isset( $payment['amount_announced'] ) && Florin_Amounts::is_some( $payment['amount_announced'] ) )
			|| array() !== array_intersect( array_merge( self::HELD, array( 'underpaid' ) ), $payment['exceptions'] );
	}

	/**
	 * Whether a payment that ended has money about which the merchant has not decided yet: it came late, after a cancellation or in another coin.
	 *
	 * @param array $payment A payment as the API returns it.
	 * @return bool
	 */
	public static function waits_for_merchant( array $payment ) {
		$amounts = array_intersect_key( $payment, array_flip( array( 'amount_held', 'amount_held_usd', 'amount_announced' ) ) );
		return in_array( $payment['status'], array( 'expired', 'failed', 'cancelled' ), true )
			&& array() !== array_filter( $amounts, array( 'Florin_Amounts', 'is_some' ) );
	}

	/**
	 * Whether nothing is expected of a payment any more.
	 *
	 * @param array $payment A payment as the API returns it.
	 * @param int   $now     Seconds since 1970.
	 * @return bool
	 */
	public static function is_final( array $payment, $now ) {
		switch ( $payment['status'] ) {
			case 'pending':
			case 'processing':
				return false;
			case 'completed':
				return ! in_array( 'reorged', $payment['exceptions'], true );
			default:
				return $now - (int) strtotime( $payment['created_at'] ) > self::FOLLOWED_SECONDS;
		}
	}
}
