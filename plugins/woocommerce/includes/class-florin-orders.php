<?php
/**
 * Orders that are paid through Florin.
 *
 * @package Florin
 */

defined( 'ABSPATH' ) || exit;

final class Florin_Orders {
	const GATEWAY = 'florin';
	/** Checks an order when no webhook told about it. */
	const CHECK_HOOK = 'florin_payments_check_order';
	/** Seconds between two checks, and after which an order is no longer checked: a payment can be late by days. */
	const CHECK_SECONDS = 300;
	const CHECK_LIMIT   = 172800;

	const CURRENT  = '_florin_payment_id';
	const ALL      = '_florin_payment_ids';
	const PAGE     = '_florin_payment_url';
	const BOOKED   = '_florin_booked';
	const REVERSED = '_florin_reversed';
	const NOTED    = '_florin_noted';
	const MODE     = '_florin_mode';
	const STARTED  = '_florin_started';

	/**
	 * The page where the customer pays an order. An open payment for the same total is used again.
	 *
	 * @param WC_Order      $order      The order.
	 * @param Florin_Client $client     The server.
	 * @param string        $return_url Where the customer returns to.
	 * @return string
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	public static function payment_page( $order, Florin_Client $client, $return_url ) {
		$current = (string) $order->get_meta( self::CURRENT );
		if ( '' !== $current ) {
			try {
				$payment = $client->payment( $current );
				if ( 'pending' === $payment['status'] && Florin_Decisions::asks_for( $payment, self::facts( $order ) ) ) {
					return $payment['payment_url'];
				}
			} catch ( Florin_Failure $failure ) {
				// Another account or mode, for example. A new payment needs nothing from it.
				if ( 404 !== $failure->status && 401 !== $failure->status ) {
					throw $failure;
				}
			}
		}
		$payment = $client->create_payment(
			array(
				'amount'        => (string) Florin_Amounts::normal( (string) $order->get_total() ),
				'currency_fiat' => $order->get_currency(),
				'return_url'    => $return_url,
				/* translators: %s: order number */
				'description'   => sprintf( __( 'Order %s', 'florin-payments' ), $order->get_order_number() ),
				'invoice_id'    => (string) $order->get_order_number(),
				'metadata'      => array(
					'order_id' => (string) $order->get_id(),
					'shop'     => substr( home_url(), 0, 500 ),
				),
			),
			// A customer who clicks twice gets one payment; a later attempt, or another total, gets a new one.
			implode( ':', array( 'wc', md5( home_url() ), $order->get_id(), count( self::payment_ids( $order ) ), $order->get_total(), $order->get_currency() ) )
		);
		$ids   = self::payment_ids( $order );
		$ids[] = $payment['transaction_id'];
		$order->update_meta_data( self::CURRENT, $payment['transaction_id'] );
		$order->update_meta_data( self::ALL, array_values( array_unique( $ids ) ) );
		$order->update_meta_data( self::PAGE, $payment['payment_url'] );
		$order->update_meta_data( self::MODE, $payment['mode'] );
		$order->update_meta_data( self::STARTED, (string) time() );
		$order->save();
		self::check_later( $order->get_id() );
		return $payment['payment_url'];
	}

	/**
	 * All payments that were created for an order.
	 *
	 * @param WC_Order $order The order.
	 * @return string[]
	 */
	public static function payment_ids( $order ) {
		$ids = $order->get_meta( self::ALL );
		return is_array( $ids ) ? $ids : array();
	}

	/**
	 * What decides about an order.
	 *
	 * @param WC_Order $order The order.
	 * @return array As in Florin_Decisions::steps().
	 */
	public static function facts( $order ) {
		return array(
			'status'   => $order->get_status(),
			'paid'     => $order->is_paid() || null !== $order->get_date_paid(),
			'total'    => (string) $order->get_total(),
			'currency' => $order->get_currency(),
			'current'  => (string) $order->get_meta( self::CURRENT ),
			'booked'   => (string) $order->get_meta( self::BOOKED ),
			'reversed' => 'yes' === $order->get_meta( self::REVERSED ),
		);
	}

	/**
	 * Reads a payment from the server and applies it to its order, while no other request does.
	 *
	 * @param int    $order_id   The order.
	 * @param string $payment_id One of its payments.
	 * @param int    $seconds    How long to wait for the server.
	 * @return bool False if the order does not have this payment.
	 * @throws Florin_Failure If the server refuses or does not answer, or another request holds the order for too long.
	 */
	public static function refresh( $order_id, $payment_id, $seconds = Florin_Client::TIMEOUT_SECONDS ) {
		return self::under_lock(
			$order_id,
			static function ( $order ) use ( $payment_id, $seconds ) {
				if ( ! $order || ! in_array( $payment_id, self::payment_ids( $order ), true ) ) {
					return false;
				}
				$payment = Florin_Connection::client()->payment( $payment_id, $seconds );
				foreach ( Florin_Decisions::steps( $payment, self::facts( $order ) ) as $step ) {
					self::take( $order, $payment, $step );
				}
				return true;
			}
		);
	}

	/**
	 * Changes an order while no other request does.
	 *
	 * @param int      $order_id The order.
	 * @param callable $change   Gets the order, or false if there is none.
	 * @return mixed What $change returns.
	 * @throws Florin_Failure If another request holds the order for too long.
	 */
	public static function under_lock( $order_id, $change ) {
		global $wpdb;
		$lock = 'florin_order_' . (int) $order_id;
		// Databases without such locks answer null.
		if ( '0' === (string) $wpdb->get_var( $wpdb->prepare( 'SELECT GET_LOCK(%s, 5)', $lock ) ) ) {
			throw new Florin_Failure( __( 'Another request is updating this order.', 'florin-payments' ) );
		}
		try {
			// Read under the lock: what another request wrote is seen.
			return $change( wc_get_order( $order_id ) );
		} finally {
			$wpdb->get_var( $wpdb->prepare( 'SELECT RELEASE_LOCK(%s)', $lock ) );
		}
	}

	/**
	 * @param WC_Order $order   The order.
	 * @param array    $payment A payment as the API returns it.
	 * @param array    $step    As in Florin_Decisions::steps().
	 * @throws Florin_Failure If WooCommerce does not complete the order; Florin then sends the event again.
	 */
	private static function take( $order, array $payment, array $step ) {
		if ( 'complete' === $step[0] ) {
			$order->update_meta_data( self::BOOKED, $payment['id'] );
			$order->save();
			if ( ! $order->payment_complete( (string) $payment['transaction_hash'] ) ) {
				throw new Florin_Failure( __( 'WooCommerce did not complete the order.', 'florin-payments' ) );
			}
			self::note_once( $order, 'completed', Florin_Notes::text( 'completed', $payment ) );
			return;
		}
		if ( 'note' === $step[0] ) {
			self::set_reversed( $order, $step[1] );
			self::note_once( $order, $step[1], Florin_Notes::text( $step[1], $payment ) );
			return;
		}
		self::set_reversed( $order, $step[2] );
		if ( 'failed' === $step[1] || 'cancelled' === $step[1] ) {
			// It ended: the customer's next attempt gets a new payment.
			$order->delete_meta_data( self::CURRENT );
		}
		$order->update_status( $step[1], Florin_Notes::text( $step[2], $payment ) . "\n" );
	}

	/**
	 * @param WC_Order $order The order.
	 * @param string   $kind  Kind of note.
	 */
	private static function set_reversed( $order, $kind ) {
		if ( 'reorged' === $kind || 'restored' === $kind ) {
			$order->update_meta_data( self::REVERSED, 'reorged' === $kind ? 'yes' : 'no' );
			$order->save();
		}
	}

	/**
	 * Adds a note, unless the same one was added before.
	 *
	 * @param WC_Order $order The order.
	 * @param string   $kind  Kind of note.
	 * @param string   $text  The note.
	 */
	public static function note_once( $order, $kind, $text ) {
		$noted = $order->get_meta( self::NOTED );
		$noted = is_array( $noted ) ? $noted : array();
		$mark  = $kind . ':' . md5( $text );
		if ( in_array( $mark, $noted, true ) ) {
			return;
		}
		$noted[] = $mark;
		$order->update_meta_data( self::NOTED, array_slice( $noted, -50 ) );
		$order->save();
		$order->add_order_note( $text );
	}

	/**
	 * Cancels the open payment of a cancelled order, so that nobody pays it any more.
	 *
	 * @param int $order_id The order.
	 */
	public static function cancel_payment( $order_id ) {
		$order = wc_get_order( $order_id );
		if ( ! $order || self::GATEWAY !== $order->get_payment_method() || '' === (string) $order->get_meta( self::CURRENT ) ) {
			return;
		}
		try {
			Florin_Connection::client()->cancel( (string) $order->get_meta( self::CURRENT ) );
		} catch ( Florin_Failure $failure ) {
			// 409: it ended already, or money is on its way. Its state arrives as a webhook.
			if ( 409 !== $failure->status && 404 !== $failure->status ) {
				/* translators: %s: error message */
				$order->add_order_note( sprintf( __( 'The Florin payment could not be canceled: %s', 'florin-payments' ), $failure->getMessage() ) );
			}
		}
	}

	/**
	 * Looks at an order that may have been paid without a webhook, and again later while it is open.
	 *
	 * @param int $order_id The order.
	 */
	public static function check( $order_id ) {
		$order = wc_get_order( $order_id );
		if ( ! $order || self::GATEWAY !== $order->get_payment_method() ) {
			return;
		}
		$current = (string) $order->get_meta( self::CURRENT );
		if ( '' === $current || $order->is_paid() || time() - (int) $order->get_meta( self::STARTED ) > self::CHECK_LIMIT ) {
			return;
		}
		try {
			self::refresh( $order_id, $current );
		} catch ( Florin_Failure $failure ) {
			wc_get_logger()->warning( $failure->getMessage(), array( 'source' => self::GATEWAY ) );
		}
		self::check_later( $order_id );
	}

	/**
	 * @param int $order_id The order.
	 */
	private static function check_later( $order_id ) {
		if ( function_exists( 'as_schedule_single_action' ) ) {
			as_schedule_single_action( time() + self::CHECK_SECONDS, self::CHECK_HOOK, array( $order_id ), self::GATEWAY, true );
		} else {
			wp_schedule_single_event( time() + self::CHECK_SECONDS, self::CHECK_HOOK, array( $order_id ) );
		}
	}
}
