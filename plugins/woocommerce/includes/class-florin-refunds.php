<?php
/**
 * Refunds of orders, which the merchant sends in Florin.
 *
 * @package Florin
 */

defined( 'ABSPATH' ) || exit;

final class Florin_Refunds {
	/** Requests whose answers did not arrive, by what they asked for. */
	const UNANSWERED = '_florin_refunds_unanswered';
	/** What a reason may have, in UTF-16 units. */
	const REASON_LENGTH = 200;
	/** States that are worth a note. */
	const NOTED = array( 'sent', 'confirmed', 'failed', 'canceled' );

	/**
	 * Requests a refund in Florin, and returns it as it is now.
	 *
	 * @param WC_Order      $order  The order.
	 * @param Florin_Client $client The server.
	 * @param array         $body   As the API reference describes it.
	 * @return array
	 * @throws Florin_Failure If the server refuses or does not answer, or the refund was canceled.
	 */
	public static function request( $order, Florin_Client $client, array $body ) {
		// A copy of a shop refunds nothing of the shop that it was copied from.
		$payment = $client->payment( $body['payment_id'] );
		if ( ! Florin_Connection::owns( $payment ) ) {
			Florin_Connection::set_problem( 'copied' );
			throw new Florin_Failure( __( 'This payment was made by another shop or at another address of this shop, so nothing was refunded. Refund it in the Florin dashboard. If this shop was copied: connect it again.', 'florin-payments' ) );
		}
		if ( Florin_Orders::is_of_another( $order, $payment ) ) {
			throw new Florin_Failure( __( 'This order is a copy of another one, whose payment this is, so nothing was refunded. Refund the payment from the other order, or in the Florin dashboard.', 'florin-payments' ) );
		}
		$name    = implode( ' ', array( $body['payment_id'], $body['amount'], $body['currency_fiat'] ) );
		$waiting = self::unanswered( $order );
		// After a lost answer, WooCommerce deletes its refund. The next attempt repeats the request, or the customer would be paid twice.
		$request = isset( $waiting[ $name ] ) ? $waiting[ $name ] : array(
			'key'  => self::key( $order, $name ),
			// Florin looks at it again when it makes the refund.
			'body' => $body + array( 'shop' => $payment['metadata']['shop'] ),
		);
		self::keep( $order, array( $name => $request ) + $waiting );
		try {
			$created = $client->create_refund( $request['body'], $request['key'] );
		} catch ( Florin_Failure $failure ) {
			if ( $failure->status >= 400 && $failure->status < 500 ) {
				self::keep( $order, array_diff_key( $waiting, array( $name => true ) ) );
			}
			throw $failure;
		}
		// A repeated key gets the reply that the first request got, whatever happened to the refund since.
		$refund = $client->refund( $created['id'] );
		self::keep( $order, array_diff_key( $waiting, array( $name => true ) ) );
		if ( 'canceled' === $refund['status'] ) {
			throw new Florin_Failure( __( 'This refund was canceled in Florin, and the customer is not paid. Refund the amount again to request a new one.', 'florin-payments' ) );
		}
		return $refund;
	}

	/**
	 * The same for two clicks on one refund, and another one for each refund of WooCommerce, which exists before it is requested here.
	 *
	 * @param WC_Order $order The order.
	 * @param string   $name  What is asked for.
	 * @return string
	 */
	private static function key( $order, $name ) {
		$newest = 0;
		foreach ( $order->get_refunds() as $refund ) {
			$newest = max( $newest, (int) $refund->get_id() );
		}
		return implode( ':', array( 'wc-refund', md5( Florin_Connection::site() . ' ' . $order->get_order_key() . ' ' . $name ), $order->get_id(), $newest ) );
	}

	/**
	 * The payment that a refund returns: the one that paid the order, or else the latest one whose money the merchant was asked about, because it was
	 * for another total or came for a canceled order.
	 *
	 * @param WC_Order $order The order.
	 * @return string Its ID, or an empty string.
	 */
	public static function source( $order ) {
		$booked = (string) $order->get_meta( Florin_Orders::BOOKED );
		$left   = $order->get_meta( Florin_Orders::LEFT );
		return '' === $booked && is_array( $left ) && array() !== $left ? (string) end( $left ) : $booked;
	}

	/**
	 * Whether the merchant requested a refund of a payment.
	 *
	 * @param string $payment_id The payment.
	 * @return bool
	 * @throws Florin_Failure If the server does not answer.
	 */
	public static function is_requested( $payment_id ) {
		try {
			$refunds = Florin_Connection::client()->refunds_of( $payment_id, Florin_Webhook::READ_SECONDS );
		} catch ( Florin_Failure $failure ) {
			// The key may not read refunds, or an older Florin has none.
			if ( 403 !== $failure->status && 404 !== $failure->status ) {
				throw $failure;
			}
			return false;
		}
		return array() !== array_diff( array_column( $refunds, 'status' ), array( 'canceled' ) );
	}

	/**
	 * Whether a refund waits for the address of the customer, who enters it at its link.
	 *
	 * @param array $refund As the server described it.
	 * @return bool
	 */
	public static function needs_address( array $refund ) {
		return null === $refund['address'] && is_string( $refund['claim_url'] );
	}

	/**
	 * Sends the customer the link at which the address is entered, as WooCommerce sends a note to the customer. It is in no note: WooCommerce shows
	 * those to everyone who knows the number and the email address of an order.
	 *
	 * @param WC_Order $order  The order.
	 * @param array    $refund The refund.
	 * @param string   $amount What the merchant refunds, with its currency.
	 */
	public static function mail_link( $order, array $refund, $amount ) {
		do_action(
			'woocommerce_new_customer_note',
			array(
				'order_id'      => $order->get_id(),
				/* translators: 1: amount and currency, 2: URL */
				'customer_note' => sprintf( __( 'Your refund of %1$s is ready. Open this link and enter the address where you want to receive it. Do not share it: the refund goes to the first address that is entered there. %2$s', 'florin-payments' ), $amount, $refund['claim_url'] ),
			)
		);
	}

	/**
	 * Shows a customer who is signed in the links of the refunds of an order. They are read each time, because they may be replaced.
	 *
	 * @param int $order_id The order.
	 */
	public static function show_links( $order_id ) {
		$order    = wc_get_order( $order_id );
		$customer = $order ? (int) $order->get_customer_id() : 0;
		// WooCommerce also shows an order to everyone who knows its number and its email address.
		if ( 0 === $customer || get_current_user_id() !== $customer ) {
			return;
		}
		try {
			$refunds = self::without_address( $order, Florin_Webhook::READ_SECONDS );
		} catch ( Florin_Failure $failure ) {
			wc_get_logger()->warning( $failure->getMessage(), array( 'source' => Florin_Orders::GATEWAY ) );
			echo '<p class="florin-refund">' . esc_html__( 'We cannot show your refund right now. Try again in a minute.', 'florin-payments' ) . '</p>';
			return;
		}
		foreach ( $refunds as $refund ) {
			/* translators: %s: amount and coin */
			$text = sprintf( __( 'Your refund of %s is ready.', 'florin-payments' ), Florin_Amounts::normal( $refund['amount'] ) . ' ' . $refund['currency'] );
			echo '<p class="florin-refund">' . esc_html( $text );
			echo ' <a href="' . esc_url( $refund['claim_url'] ) . '">' . esc_html__( 'Enter the address where you want to receive it', 'florin-payments' ) . '</a></p>';
		}
	}

	/**
	 * The refunds of an order that wait for an address of the customer.
	 *
	 * @param WC_Order $order   The order.
	 * @param int      $seconds How long to wait for each answer of the server.
	 * @return array
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	private static function without_address( $order, $seconds ) {
		$payment_id = self::source( $order );
		if ( '' === $payment_id || array() === $order->get_refunds() ) {
			return array();
		}
		$client  = Florin_Connection::client();
		$payment = $client->payment( $payment_id, $seconds );
		// A copy of an order, or of a shop, may be of somebody else.
		if ( ! Florin_Connection::owns( $payment ) || Florin_Orders::is_of_another( $order, $payment ) ) {
			return array();
		}
		return array_filter( $client->refunds_of( $payment_id, $seconds, 'requested' ), array( __CLASS__, 'needs_address' ) );
	}

	/**
	 * A reason that is not too long, and that does not end within a character: an emoji of several parts, or a letter with its accents, is kept or
	 * left out as a whole.
	 *
	 * @param string $reason As the merchant wrote it.
	 * @return string
	 */
	public static function reason( $reason ) {
		preg_match_all( '/\X/u', $reason, $characters );
		$kept   = '';
		$length = 0;
		foreach ( $characters[0] as $character ) {
			foreach ( preg_split( '//u', $character, -1, PREG_SPLIT_NO_EMPTY ) as $point ) {
				$length += 4 === strlen( $point ) ? 2 : 1;
			}
			if ( $length > self::REASON_LENGTH ) {
				break;
			}
			$kept .= $character;
		}
		return $kept;
	}

	/**
	 * Adds a note about a refund to the order of its payment. The event only says which refund changed.
	 *
	 * @param string $id         The refund.
	 * @param string $payment_id The payment that it returns.
	 * @param int    $seconds    How long to wait for each answer of the server.
	 * @throws Florin_Failure If the server refuses or does not answer, or another request holds the order for too long.
	 */
	public static function note( $id, $payment_id, $seconds ) {
		$client   = Florin_Connection::client();
		$payment  = $client->payment( $payment_id, $seconds );
		$order_id = isset( $payment['metadata']['order_id'] ) ? (string) $payment['metadata']['order_id'] : '';
		if ( ! preg_match( '/^\d{1,18}$/', $order_id ) ) {
			return;
		}
		Florin_Orders::under_lock(
			(int) $order_id,
			static function ( $order ) use ( $client, $id, $payment_id, $seconds ) {
				if ( ! $order || ! in_array( $payment_id, Florin_Orders::payment_ids( $order ), true ) ) {
					return false;
				}
				$refund = $client->refund( $id, $seconds );
				if ( $payment_id === $refund['payment_id'] && in_array( $refund['status'], self::NOTED, true ) ) {
					Florin_Orders::note_once( $order, 'refund-' . $refund['id'], Florin_Notes::of_refund( $refund ) );
				}
				return true;
			}
		);
	}

	/**
	 * @param WC_Order $order The order.
	 * @return array
	 */
	private static function unanswered( $order ) {
		$waiting = $order->get_meta( self::UNANSWERED );
		return is_array( $waiting ) ? $waiting : array();
	}

	/**
	 * @param WC_Order $order   The order.
	 * @param array    $waiting The requests that have no answer.
	 */
	private static function keep( $order, array $waiting ) {
		if ( array() === $waiting ) {
			$order->delete_meta_data( self::UNANSWERED );
		} else {
			$order->update_meta_data( self::UNANSWERED, $waiting );
		}
		$order->save();
	}
}
