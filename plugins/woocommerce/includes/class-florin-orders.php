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
	/** Seconds between two checks of a new order. Older ones are checked less often, and at least each day. */
	const CHECK_SECONDS = 300;
	const DAY_SECONDS   = 86400;

	const CURRENT  = '_florin_payment_id';
	const ALL      = '_florin_payment_ids';
	const ENDED    = '_florin_ended_ids';
	const AWAITED  = '_florin_awaited';
	const LEFT     = '_florin_left_ids';
	const TESTS    = '_florin_test_ids';
	const ASKED    = '_florin_asked';
	const ATTEMPT  = '_florin_attempt';
	const PAGE     = '_florin_payment_url';
	const BOOKED   = '_florin_booked';
	const REVERSED = '_florin_reversed';
	const NOTED    = '_florin_noted';
	const MODE     = '_florin_mode';
	const STARTED  = '_florin_started';

	/** @var bool[] Orders that this request holds. */
	private static $held = array();

	/**
	 * Where a customer who wants to pay goes: to the page of a payment, or back if the order is paid. An open payment for the same total is
	 * used again, and nobody whose money is here already is asked for more.
	 *
	 * @param int    $order_id   The order.
	 * @param string $return_url Where the customer returns to.
	 * @return string
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	public static function payment_page( $order_id, $return_url ) {
		return self::under_lock(
			$order_id,
			static function ( $order ) use ( $return_url ) {
				if ( ! $order ) {
					throw self::gone();
				}
				$payments = self::follow( $order );
				$facts    = self::facts( $order );
				$former   = '';
				// Nobody pays again while the merchant has to decide about money that came.
				$held = array() !== array_filter(
					$payments,
					static function ( $payment ) {
						return ! Florin_Connection::is_of_original( $payment ) && Florin_Decisions::waits_for_merchant( $payment );
					}
				);
				foreach ( $payments as $payment ) {
					$open  = 'pending' === $payment['status'] && $payment['id'] === $facts['current'];
					$waits = $open && ! $held && ! Florin_Connection::is_of_original( $payment ) && Florin_Decisions::asks_for( $payment, $facts );
					if ( $open && Florin_Connection::owns( $payment ) ) {
						$former = $payment['id'];
					}
					if ( ! $facts['paid'] && ( $waits || ( 'completed' !== $payment['status'] && self::is_running( $payment ) ) ) ) {
						return $payment['payment_url'];
					}
				}
				if ( $facts['paid'] || $held || 'on-hold' === $facts['status'] ) {
					return $return_url;
				}
				$amount = Florin_Amounts::in( $facts['total'], $facts['currency'] );
				if ( null === $amount ) {
					/* translators: %s: currency */
					throw new Florin_Failure( sprintf( __( 'Florin has no rate for %s.', 'florin-payments' ), $facts['currency'] ), 0, 'currency' );
				}
				self::attempt( $order, self::request( $order, $amount, $return_url, $former ) );
				// The former ones, if there are any, are not to be paid any more.
				foreach ( $payments as $payment ) {
					self::apply( $order, Florin_Connection::client()->payment( $payment['id'] ) );
				}
				return (string) $order->get_meta( self::PAGE );
			}
		);
	}

	/**
	 * @param WC_Order $order      The order.
	 * @param string   $amount     What it costs.
	 * @param string   $return_url Where the customer returns to.
	 * @param string   $former     The payment that it takes the place of, or an empty string.
	 * @return array Idempotency-Key, body, and the mode whose key sends it.
	 */
	private static function request( $order, $amount, $return_url, $former ) {
		$order_key = (string) $order->get_order_key();
		return array(
			// The order's own key is in it: a database that is put back to an earlier day gives out the same numbers again.
			'key'  => implode( ':', array( 'wc', md5( Florin_Connection::site() . ' ' . $order_key ), $order->get_id(), count( self::payment_ids( $order ) ), $amount, $order->get_currency() ) ),
			'body' => array(
				'amount'        => $amount,
				'currency_fiat' => $order->get_currency(),
				'return_url'    => $return_url,
				/* translators: %s: order number */
				'description'   => sprintf( __( 'Order %s', 'florin-payments' ), $order->get_order_number() ),
				'invoice_id'    => (string) $order->get_order_number(),
				'metadata'      => array(
					'order_id'  => (string) $order->get_id(),
					'order_key' => $order_key,
					'shop'      => Florin_Connection::site(),
				),
			) + self::customer( $order ) + ( '' === $former ? array() : array( 'replaces' => $former ) ),
			'mode' => Florin_Connection::mode(),
		);
	}

	/**
	 * Who pays, by the email address alone: guests have no ID, and several shops of one merchant give out the same IDs.
	 *
	 * @param WC_Order $order The order.
	 * @return array The field of the request, if the order says it.
	 */
	private static function customer( $order ) {
		$email = trim( (string) $order->get_billing_email() );
		if ( '' === $email ) {
			return array();
		}
		$name = trim( $order->get_billing_first_name() . ' ' . $order->get_billing_last_name() );
		return array( 'customer' => array( 'email' => $email ) + ( '' === $name ? array() : array( 'name' => $name ) ) );
	}

	/**
	 * Creates a payment. What is asked for is stored before, so that an answer that is lost is asked for again and not another payment.
	 *
	 * @param WC_Order $order   The order.
	 * @param array    $request As request() returns it.
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	private static function attempt( $order, array $request ) {
		$order->update_meta_data( self::ATTEMPT, $request );
		$order->update_meta_data( self::STARTED, (string) time() );
		$order->save();
		self::check_later( $order );
		try {
			$payment = Florin_Connection::client()->create_payment( $request['body'], $request['key'] );
		} catch ( Florin_Failure $failure ) {
			if ( 'replaces' === $failure->param && isset( $request['body']['replaces'] ) ) {
				// An older Florin, or the customer started the former one again: the new one stands by itself, and the others are canceled after it.
				unset( $request['body']['replaces'] );
				self::attempt( $order, array( 'key' => $request['key'] . ':alone' ) + $request );
				return;
			}
			if ( 0 === strpos( (string) $failure->param, 'customer' ) && isset( $request['body']['customer'] ) ) {
				// An address that Florin does not take, or an older Florin: who pays is worth less than the order.
				wc_get_logger()->warning( $failure->getMessage(), array( 'source' => self::GATEWAY ) );
				unset( $request['body']['customer'] );
				self::attempt( $order, array( 'key' => $request['key'] . ':unnamed' ) + $request );
				return;
			}
			if ( 422 === $failure->status && 'idempotency_mismatch' === $failure->error_code && empty( $request['fresh'] ) ) {
				$again = array(
					'key'   => $request['key'] . ':' . bin2hex( random_bytes( 8 ) ),
					'fresh' => true,
				);
				self::attempt( $order, $again + $request );
				return;
			}
			if ( $failure->status >= 400 && $failure->status < 500 && 409 !== $failure->status && 429 !== $failure->status ) {
				$order->delete_meta_data( self::ATTEMPT );
				$order->save();
			}
			throw $failure;
		}
		if ( ! self::fresh( $order->get_id() ) ) {
			self::leave( $order, Florin_Connection::client()->payment( $payment['transaction_id'] ) );
			throw self::gone();
		}
		$order->delete_meta_data( self::ATTEMPT );
		self::adopt( $order, array( 'id' => $payment['transaction_id'] ) + $payment );
	}

	/**
	 * Makes a payment the one that the customer is asked to pay.
	 *
	 * @param WC_Order $order   The order.
	 * @param array    $payment A payment as the API returns it.
	 */
	private static function adopt( $order, array $payment ) {
		$order->update_meta_data( self::CURRENT, $payment['id'] );
		$order->update_meta_data( self::ALL, array_values( array_unique( array_merge( self::payment_ids( $order ), array( $payment['id'] ) ) ) ) );
		$order->update_meta_data( self::PAGE, $payment['payment_url'] );
		$order->update_meta_data( self::MODE, $payment['mode'] );
		$order->update_meta_data( self::STARTED, (string) time() );
		$order->save();
		if ( 'test' === $payment['mode'] ) {
			self::add_id( $order, self::TESTS, $payment['id'] );
		}
		self::check_later( $order );
	}

	/**
	 * Adds a payment that the order does not know: its answer was lost, or the customer started a payment again on its page.
	 *
	 * @param WC_Order $order   The order.
	 * @param array    $payment A payment as the API returns it.
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	private static function learn( $order, array $payment ) {
		$current = (string) $order->get_meta( self::CURRENT );
		$first   = $payment;
		while ( '' !== $current && isset( $first['replaces'] ) && $first['replaces'] !== $current ) {
			$first = Florin_Connection::client()->payment( $first['replaces'], Florin_Webhook::READ_SECONDS );
		}
		if ( '' === $current || isset( $first['replaces'] ) ) {
			self::adopt( $order, $payment );
		} else {
			self::add_id( $order, self::ALL, $payment['id'] );
			if ( 'test' === $payment['mode'] ) {
				self::add_id( $order, self::TESTS, $payment['id'] );
			}
		}
	}

	/**
	 * All payments that were created for an order.
	 *
	 * @param WC_Order $order The order.
	 * @return string[]
	 */
	public static function payment_ids( $order ) {
		return self::ids( $order, self::ALL );
	}

	/**
	 * The payments of an order of which something is expected.
	 *
	 * @param WC_Order $order The order.
	 * @return string[]
	 */
	private static function expected_ids( $order ) {
		return array_diff( self::payment_ids( $order ), self::ids( $order, self::ENDED ), self::simulated_ids( $order ) );
	}

	/**
	 * The simulated payments of an order, once the shop takes real money: no money can come of them, and the live key cannot read them.
	 *
	 * @param WC_Order $order The order.
	 * @return string[]
	 */
	private static function simulated_ids( $order ) {
		return Florin_Connection::is_test() ? array() : self::ids( $order, self::TESTS );
	}

	/**
	 * @param WC_Order $order The order.
	 * @param string   $name  Name of the data.
	 * @return string[]
	 */
	private static function ids( $order, $name ) {
		$ids = $order->get_meta( $name );
		return is_array( $ids ) ? $ids : array();
	}

	/**
	 * @param WC_Order $order The order.
	 * @param string   $name  Name of the data.
	 * @param string   $id    A payment.
	 */
	private static function add_id( $order, $name, $id ) {
		$ids = self::ids( $order, $name );
		if ( ! in_array( $id, $ids, true ) ) {
			$order->update_meta_data( $name, array_merge( $ids, array( $id ) ) );
			$order->save();
		}
	}

	/**
	 * What decides about an order.
	 *
	 * @param WC_Order $order The order.
	 * @return array As in Florin_Decisions::steps().
	 */
	private static function facts( $order ) {
		return array(
			'own'      => self::GATEWAY === $order->get_payment_method(),
			'status'   => $order->get_status(),
			'paid'     => $order->is_paid() || null !== $order->get_date_paid(),
			'total'    => (string) $order->get_total(),
			'currency' => $order->get_currency(),
			'current'  => (string) $order->get_meta( self::CURRENT ),
			'booked'   => (string) $order->get_meta( self::BOOKED ),
			'awaited'  => (string) $order->get_meta( self::AWAITED ),
			'left'     => self::ids( $order, self::LEFT ),
			'reversed' => 'yes' === $order->get_meta( self::REVERSED ),
		);
	}

	/**
	 * Reads a payment from the server and applies it to its order, while no other request does. A payment whose answer was lost, or that is
	 * told about before its answer was stored, is known by what it says of its order.
	 *
	 * @param int    $order_id   The order.
	 * @param string $payment_id One of its payments.
	 * @param int    $seconds    How long to wait for the server.
	 * @throws Florin_Failure If the server refuses or does not answer, or another request holds the order for too long.
	 */
	public static function refresh( $order_id, $payment_id, $seconds = Florin_Client::TIMEOUT_SECONDS ) {
		self::under_lock(
			$order_id,
			static function ( $order ) use ( $order_id, $payment_id, $seconds ) {
				$payment = Florin_Connection::client()->payment( $payment_id, $seconds );
				$order   = self::fresh( $order_id );
				if ( ! $order || ! self::is_of( $order, $payment ) ) {
					Florin_Unplaced::look( $payment, isset( $payment['invoice_id'] ) ? (string) $payment['invoice_id'] : (string) $order_id );
					return;
				}
				if ( ! in_array( $payment_id, self::payment_ids( $order ), true ) ) {
					self::learn( $order, $payment );
				}
				self::apply( $order, $payment );
			}
		);
	}

	/**
	 * Whether a payment was made for an order: it is known to it, takes the place of one that is, or names it with its key, which no other order has.
	 *
	 * @param WC_Order $order   The order.
	 * @param array    $payment A payment as the API returns it.
	 * @return bool
	 */
	private static function is_of( $order, array $payment ) {
		if ( self::is_of_another( $order, $payment ) ) {
			return false;
		}
		$named = $payment['metadata'] + array( 'order_id' => '', 'order_key' => '' );
		$known = self::payment_ids( $order );
		return in_array( $payment['id'], $known, true )
			|| ( isset( $payment['replaces'] ) && in_array( $payment['replaces'], $known, true ) )
			|| ( Florin_Connection::owns( $payment ) && (string) $order->get_id() === $named['order_id'] && '' !== $named['order_key'] && $order->get_order_key() === $named['order_key'] );
	}

	/**
	 * Whether a payment, or a request for one, was made for another order. Plugins that copy an order, renew a subscription or import orders
	 * give the new order everything that is stored with the old one.
	 *
	 * @param WC_Order $order The order.
	 * @param array    $made  A payment as the API returns it, or the body of a request.
	 * @return bool
	 */
	public static function is_of_another( $order, array $made ) {
		return isset( $made['metadata']['order_id'] ) && (string) $order->get_id() !== (string) $made['metadata']['order_id'];
	}

	/**
	 * The mode whose key sent a request. The key of the other mode would create a second payment instead of finding the first one.
	 *
	 * @param array $attempt A request whose answer is not known.
	 * @return string
	 */
	private static function mode_of( array $attempt ) {
		return isset( $attempt['mode'] ) ? $attempt['mode'] : Florin_Connection::mode();
	}

	/**
	 * @param WC_Order $order The order.
	 * @param string   $id    A payment of another order.
	 */
	private static function forget( $order, $id ) {
		$order->update_meta_data( self::ALL, array_values( array_diff( self::payment_ids( $order ), array( $id ) ) ) );
		foreach ( array( self::CURRENT, self::BOOKED, self::AWAITED ) as $name ) {
			if ( $id === $order->get_meta( $name ) ) {
				$order->delete_meta_data( $name );
			}
		}
		$order->save();
	}

	/**
	 * Reads all payments of an order of which something is expected, and applies them.
	 *
	 * @param WC_Order $order   The order, held by this request.
	 * @param int      $seconds How long to wait for each answer of the server.
	 * @return array[] The payments as the API returns them.
	 * @throws Florin_Failure If the server refuses or does not answer.
	 */
	private static function follow( &$order, $seconds = Florin_Client::TIMEOUT_SECONDS ) {
		$attempt = $order->get_meta( self::ATTEMPT );
		if ( is_array( $attempt ) ) {
			$is_here = Florin_Connection::mode() === self::mode_of( $attempt );
			if ( self::is_of_another( $order, $attempt['body'] ) || ( ! $is_here && ! Florin_Connection::is_test() ) ) {
				// No money can come of a simulated payment, so a shop that takes real money forgets the request.
				$order->delete_meta_data( self::ATTEMPT );
				$order->save();
			} elseif ( $is_here && Florin_Connection::owns( $attempt['body'] ) ) {
				self::attempt( $order, $attempt );
			}
		}
		$current  = (string) $order->get_meta( self::CURRENT );
		$ids      = array_diff( self::expected_ids( $order ), array( $current ) );
		$ids      = array_merge( in_array( $current, self::simulated_ids( $order ), true ) || '' === $current ? array() : array( $current ), $ids );
		$payments = array();
		while ( array() !== $ids ) {
			$id = array_shift( $ids );
			try {
				$payment = Florin_Connection::client()->payment( $id, $seconds );
				if ( self::is_of_another( $order, $payment ) ) {
					self::forget( $order, $id );
					continue;
				}
				if ( isset( $payment['replaced_by'] ) && ! in_array( $payment['replaced_by'], self::payment_ids( $order ), true ) ) {
					// The customer started it again, and no webhook told.
					self::learn( $order, Florin_Connection::client()->payment( $payment['replaced_by'], $seconds ) );
					$ids[] = $payment['replaced_by'];
				}
				$payment = self::apply( $order, $payment );
				if ( $payment['id'] === $order->get_meta( self::CURRENT ) ) {
					array_unshift( $payments, $payment );
				} else {
					$payments[] = $payment;
				}
			} catch ( Florin_Failure $failure ) {
				if ( 404 !== $failure->status ) {
					throw $failure;
				}
				/* translators: %s: payment ID */
				self::note_once( $order, 'unknown', sprintf( __( 'The account in Florin that this shop is connected to now does not know payment %s. Anyone who has its page can still pay it: look for it in the account or mode that was connected before.', 'florin-payments' ), $id ) );
			}
		}
		return $payments;
	}

	/**
	 * Follows all payments of an order, while no other request changes it.
	 *
	 * @param int $order_id The order.
	 * @param int $seconds  How long to wait for each answer of the server.
	 * @return array[] The payments as the API returns them, the current one first.
	 * @throws Florin_Failure If the server refuses or does not answer, or another request holds the order for too long.
	 */
	public static function settle( $order_id, $seconds = Florin_Client::TIMEOUT_SECONDS ) {
		return self::under_lock(
			$order_id,
			static function ( $order ) use ( $seconds ) {
				return $order ? self::follow( $order, $seconds ) : array();
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
		return self::locked(
			(string) $order_id,
			static function () use ( $order_id, $change ) {
				self::$held[ $order_id ] = true;
				try {
					return $change( self::fresh( $order_id ) );
				} finally {
					unset( self::$held[ $order_id ] );
				}
			}
		);
	}

	/**
	 * Does something while no other request does anything under the same name.
	 *
	 * @param string   $name Of this shop.
	 * @param callable $work What to do.
	 * @return mixed What $work returns.
	 * @throws Florin_Failure If another request holds it for too long.
	 */
	public static function locked( $name, $work ) {
		global $wpdb;
		// Locks are known to the whole database server, which may serve other shops.
		$lock = 'florin_' . md5( Florin_Connection::site() . ' ' . $name );
		// Databases without such locks answer null.
		if ( '0' === (string) $wpdb->get_var( $wpdb->prepare( 'SELECT GET_LOCK(%s, 5)', $lock ) ) ) {
			throw new Florin_Failure( __( 'Another request is updating this order.', 'florin-payments' ) );
		}
		try {
			return $work();
		} finally {
			$wpdb->get_var( $wpdb->prepare( 'SELECT RELEASE_LOCK(%s)', $lock ) );
		}
	}

	/**
	 * Reads an order as it is stored. WooCommerce would answer from the memory of this request, or from an object cache, which can have kept
	 * what another request read before the order changed.
	 *
	 * @param int $order_id The order.
	 * @return WC_Order|false
	 */
	private static function fresh( $order_id ) {
		if ( class_exists( '\Automattic\WooCommerce\Caches\OrderCache' ) ) {
			wc_get_container()->get( \Automattic\WooCommerce\Caches\OrderCache::class )->remove( $order_id );
		}
		// Of orders in tables of their own; the store of orders in posts has no such function, and ignores it.
		WC_Data_Store::load( 'order' )->clear_cached_data( array( $order_id ) );
		wp_cache_delete( $order_id, 'posts' );
		wp_cache_delete( $order_id, 'post_meta' );
		$order = wc_get_order( $order_id );
		if ( ! $order instanceof WC_Order ) {
			return false;
		}
		$order->read_meta_data( true );
		return $order;
	}

	/**
	 * The order is read again: while the server answered, somebody may have changed it by hand, who does not wait for this request.
	 *
	 * @param WC_Order $order   The order, held by this request.
	 * @param array    $payment A payment as the API returns it.
	 * @return array The payment as it is afterwards.
	 * @throws Florin_Failure If a step fails, or the order was deleted.
	 */
	private static function apply( &$order, array $payment ) {
		$order = self::fresh( $order->get_id() );
		if ( ! $order ) {
			throw self::gone();
		}
		if ( Florin_Connection::is_of_original( $payment ) ) {
			return $payment;
		}
		$facts = self::facts( $order );
		if ( 'completed' === $payment['status'] && $payment['id'] !== $facts['booked'] ) {
			$payment['returning'] = Florin_Refunds::is_requested( $payment['id'] );
		}
		foreach ( Florin_Decisions::steps( $payment, $facts ) as $step ) {
			if ( 'cancel' === $step[0] ) {
				$payment = self::cancel( $order, $payment );
				if ( isset( $payment['kept'] ) ) {
					self::note_once( $order, 'kept', Florin_Notes::text( 'kept', $payment ) );
				}
			} else {
				self::take( $order, $payment, $step );
			}
		}
		if ( 'trash' === $order->get_status() && $payment['id'] !== $order->get_meta( self::BOOKED ) ) {
			// Nobody reads the notes of an order in the trash.
			Florin_Unplaced::look( $payment, (string) $order->get_order_number() );
		} elseif ( isset( $payment['metadata']['order_missing'] ) && Florin_Connection::owns( $payment ) ) {
			Florin_Unplaced::report( $payment, null );
		}
		if ( Florin_Decisions::is_final( $payment, time() ) ) {
			self::add_id( $order, self::ENDED, $payment['id'] );
		}
		return $payment;
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
			if ( 'checkout-draft' === $order->get_status() ) {
				// WooCommerce completes no draft, says that it did, and deletes it a day later.
				$order->update_status( 'pending' );
			}
			if ( ! $order->payment_complete( (string) $payment['transaction_hash'] ) ) {
				throw new Florin_Failure( __( 'WooCommerce did not complete the order.', 'florin-payments' ) );
			}
			self::note_once( $order, 'completed', Florin_Notes::text( 'completed', $payment ) );
			return;
		}
		$kind = 'note' === $step[0] ? $step[1] : $step[2];
		$text = Florin_Notes::text( $kind, $payment, $order->get_total() . ' ' . $order->get_currency() );
		if ( 'reorged' === $kind || 'restored' === $kind ) {
			$order->update_meta_data( self::REVERSED, 'reorged' === $kind ? 'yes' : 'no' );
			$order->save();
		}
		if ( 'processing' === $kind && 'status' === $step[0] ) {
			$order->update_meta_data( self::AWAITED, $payment['id'] );
		} elseif ( 'status' === $step[0] ) {
			$order->delete_meta_data( self::AWAITED );
		}
		if ( 'other_total' === $kind ) {
			$order->update_meta_data( self::ASKED, Florin_Notes::asked( $payment ) );
		}
		if ( in_array( $kind, array( 'after_cancel', 'other_total', 'returned' ), true ) ) {
			self::add_id( $order, self::LEFT, $payment['id'] );
		}
		if ( 'failed' === $step[1] || 'cancelled' === $step[1] ) {
			// It ended: the customer's next attempt gets a new payment.
			$order->delete_meta_data( self::CURRENT );
			$order->save();
		}
		// WooCommerce drops the note of a change to the same status.
		if ( 'note' === $step[0] || $order->get_status() === $step[1] ) {
			self::note_once( $order, $kind, $text );
			return;
		}
		$order->update_meta_data( self::NOTED, array_merge( self::ids( $order, self::NOTED ), array( self::mark( $kind, $text ) ) ) );
		$order->update_status( $step[1], $text . "\n" );
		if ( 'failed' === $step[1] ) {
			// An order on hold has its goods set aside, and WooCommerce puts back only those of pending and canceled orders.
			wc_maybe_increase_stock_levels( $order->get_id() );
		}
	}

	/**
	 * Cancels a payment that nobody paid, so that nobody pays it any more. Whether money came is decided by Florin at that moment.
	 *
	 * @param WC_Order $order   The order.
	 * @param array    $payment A payment as the API returns it.
	 * @return array The payment as it is now; with the key "kept" if money came, or if this version of Florin cannot look at that.
	 * @throws Florin_Failure If the server does not answer.
	 */
	private static function cancel( $order, array $payment ) {
		if ( ! Florin_Connection::owns( $payment ) ) {
			Florin_Connection::set_problem( 'copied' );
			return $payment;
		}
		try {
			Florin_Connection::client()->cancel( $payment['id'], $payment['metadata']['shop'] );
		} catch ( Florin_Failure $failure ) {
			if ( 'payment_has_money' === $failure->error_code || 'parameter_unknown' === $failure->error_code ) {
				return array( 'kept' => true ) + Florin_Connection::client()->payment( $payment['id'] );
			}
			// It ended already.
			if ( 409 !== $failure->status ) {
				throw $failure;
			}
		}
		if ( $payment['id'] === $order->get_meta( self::CURRENT ) ) {
			$order->delete_meta_data( self::CURRENT );
			$order->save();
		}
		return Florin_Connection::client()->payment( $payment['id'] );
	}

	/**
	 * Adds a note, unless the same one was added before.
	 *
	 * @param WC_Order $order The order.
	 * @param string   $kind  Kind of note.
	 * @param string   $text  The note.
	 */
	public static function note_once( $order, $kind, $text ) {
		$noted = self::ids( $order, self::NOTED );
		$mark  = self::mark( $kind, $text );
		if ( in_array( $mark, $noted, true ) ) {
			return;
		}
		$noted[] = $mark;
		$order->update_meta_data( self::NOTED, array_slice( $noted, -50 ) );
		$order->save();
		$order->add_order_note( $text );
	}

	/**
	 * What is kept of a note that was added.
	 *
	 * @param string $kind Kind of note.
	 * @param string $text The note.
	 * @return string
	 */
	private static function mark( $kind, $text ) {
		return $kind . ':' . md5( $text );
	}

	/**
	 * Looks at the payments of an order that somebody else paid, canceled or refunded: none of them is to be paid any more.
	 *
	 * @param int    $order_id The order.
	 * @param string $from     Status before.
	 * @param string $to       Status now.
	 */
	public static function status_changed( $order_id, $from, $to ) {
		$order = self::fresh( $order_id );
		if ( isset( self::$held[ $order_id ] ) || ! self::has_payments( $order ) || ( self::GATEWAY === $order->get_payment_method() && in_array( $to, Florin_Decisions::OPEN, true ) ) ) {
			return;
		}
		self::end( $order );
	}

	/**
	 * Looks at the payments of an order that was moved to the trash.
	 *
	 * @param int $order_id The order.
	 */
	public static function trashed( $order_id ) {
		$order = self::fresh( $order_id );
		if ( ! isset( self::$held[ $order_id ] ) && self::has_payments( $order ) ) {
			self::end( $order );
		}
	}

	/**
	 * @param WC_Order $order An order that waits for no payment any more.
	 */
	private static function end( $order ) {
		try {
			self::settle( $order->get_id(), Florin_Webhook::READ_SECONDS );
		} catch ( Florin_Failure $failure ) {
			/* translators: %s: error message */
			self::note_once( $order, 'unsettled', sprintf( __( 'We cannot reach the payment of this order in Florin, so it can still be paid: %s', 'florin-payments' ), $failure->getMessage() ) );
			self::check_later( $order );
		}
	}

	/**
	 * Before an order is deleted: its open payments are canceled, and money that came for it is named in the administration. The order itself is
	 * not changed any more. Money that comes later is named when Florin tells about it.
	 *
	 * @param int $order_id The order.
	 */
	public static function deleted( $order_id ) {
		$order = self::fresh( $order_id );
		if ( isset( self::$held[ $order_id ] ) || ! self::has_payments( $order ) ) {
			return;
		}
		$unbooked = static function ( $order ) {
			$facts = $order ? self::facts( $order ) : array();
			return $order ? array_diff( self::payment_ids( $order ), $facts['paid'] ? array( $facts['booked'] ) : array() ) : array();
		};
		$left     = $unbooked( $order );
		try {
			self::under_lock(
				$order_id,
				static function ( $order ) use ( $unbooked, &$left ) {
					// The customer may have been on the way to a payment until now.
					$left = $unbooked( $order );
					foreach ( $left as $at => $id ) {
						try {
							self::leave( $order, Florin_Connection::client()->payment( $id, Florin_Webhook::READ_SECONDS ) );
						} catch ( Florin_Failure $failure ) {
							if ( 404 !== $failure->status ) {
								throw $failure;
							}
						}
						unset( $left[ $at ] );
					}
				}
			);
		} catch ( Florin_Failure $failure ) {
			foreach ( $left as $id ) {
				Florin_Unplaced::unknown( $id, (string) $order->get_meta( self::MODE ), (string) $order->get_order_number() );
			}
		}
		as_unschedule_action( self::CHECK_HOOK, array( $order_id ), self::GATEWAY );
	}

	/**
	 * Cancels a payment of an order that is deleted, or names it to the merchant.
	 *
	 * @param WC_Order $order   The order.
	 * @param array    $payment A payment as the API returns it.
	 * @throws Florin_Failure If the server does not answer.
	 */
	private static function leave( $order, array $payment ) {
		if ( self::is_of_another( $order, $payment ) ) {
			return;
		}
		if ( 'pending' === $payment['status'] && ! Florin_Decisions::has_money( $payment ) ) {
			$payment = self::cancel( $order, $payment );
		}
		if ( isset( $payment['kept'] ) && ! Florin_Decisions::has_money( $payment ) ) {
			Florin_Unplaced::unknown( $payment['id'], $payment['mode'], (string) $order->get_order_number() );
		} else {
			Florin_Unplaced::look( $payment, (string) $order->get_order_number() );
		}
	}

	/**
	 * @return Florin_Failure
	 */
	private static function gone() {
		return new Florin_Failure( __( 'The order was deleted.', 'florin-payments' ), 0, 'order_deleted' );
	}

	/**
	 * Whether WooCommerce may cancel an order that was not paid in time: only if Florin says that no money came, and none can come any more.
	 *
	 * @param bool     $cancel Whether WooCommerce wants to.
	 * @param WC_Order $order  The order.
	 * @return bool
	 */
	public static function may_cancel( $cancel, $order ) {
		if ( ! $cancel || ! ( self::has_payments( $order ) || self::has_payments( self::fresh( $order->get_id() ) ) ) ) {
			return $cancel;
		}
		try {
			return self::under_lock(
				$order->get_id(),
				static function ( $order ) {
					if ( ! $order ) {
						// Deleted meanwhile.
						return false;
					}
					$known  = self::follow( $order );
					$unread = array_diff( self::expected_ids( $order ), array_column( $known, 'id' ) );
					// The answer that the key of the other mode would find.
					$lost = is_array( $order->get_meta( self::ATTEMPT ) ) && Florin_Connection::owns( $order->get_meta( self::ATTEMPT )['body'] );
					$free = array() === $unread && ! $lost && in_array( $order->get_status(), array( 'pending', 'checkout-draft' ), true );
					foreach ( $known as $payment ) {
						if ( 'pending' === $payment['status'] && ! Florin_Decisions::has_money( $payment ) ) {
							$payment = self::cancel( $order, $payment );
						}
						$kept = isset( $payment['kept'] ) || Florin_Decisions::has_money( $payment );
						if ( $kept && 'pending' === $order->get_status() && self::GATEWAY === $order->get_payment_method() ) {
							$order->update_status( 'on-hold', Florin_Notes::text( isset( $payment['kept'] ) ? 'kept' : 'partial', $payment ) . "\n" );
						}
						$free = $free && ! $kept && 'pending' !== $payment['status'];
					}
					return $free;
				}
			);
		} catch ( Florin_Failure $failure ) {
			wc_get_logger()->warning( $failure->getMessage(), array( 'source' => self::GATEWAY ) );
			return false;
		}
	}

	/**
	 * Looks at an order that may have been paid without a webhook, and again later while something is expected.
	 *
	 * @param int $order_id The order.
	 */
	public static function check( $order_id ) {
		try {
			self::settle( $order_id );
		} catch ( Florin_Failure $failure ) {
			wc_get_logger()->warning( $failure->getMessage(), array( 'source' => self::GATEWAY ) );
		}
		$order = self::fresh( $order_id );
		if ( self::has_payments( $order ) && ( is_array( $order->get_meta( self::ATTEMPT ) ) || array() !== self::expected_ids( $order ) ) ) {
			self::check_later( $order );
		}
	}

	/** Looks at all orders that wait, and at those that were canceled lately: the shop was connected to another account, or with another key. */
	public static function look_at_all() {
		$which  = array(
			'payment_method' => self::GATEWAY,
			'limit'          => -1,
			'return'         => 'ids',
		);
		$lately = array( 'date_modified' => '>' . ( time() - Florin_Decisions::FOLLOWED_SECONDS ) );
		$ids    = array_merge(
			wc_get_orders( $which + array( 'status' => array( 'pending', 'checkout-draft', 'on-hold' ) ) ),
			wc_get_orders( $which + $lately + array( 'status' => array( 'failed', 'cancelled' ) ) )
		);
		foreach ( $ids as $id ) {
			self::check_in( $id, 0 );
		}
	}

	/**
	 * @param WC_Order|false $order The order.
	 * @return bool
	 */
	private static function has_payments( $order ) {
		return $order instanceof WC_Order && ( array() !== self::payment_ids( $order ) || is_array( $order->get_meta( self::ATTEMPT ) ) );
	}

	/**
	 * Whether money is on its way in a payment.
	 *
	 * @param array $payment A payment as the API returns it.
	 * @return bool
	 */
	private static function is_running( array $payment ) {
		return 'processing' === $payment['status'] || ( 'pending' === $payment['status'] && Florin_Decisions::has_money( $payment ) );
	}

	/**
	 * @param WC_Order $order The order.
	 */
	private static function check_later( $order ) {
		$age = time() - (int) $order->get_meta( self::STARTED );
		self::check_in( $order->get_id(), max( self::CHECK_SECONDS, min( self::DAY_SECONDS, (int) ( $age / 12 ) ) ) );
	}

	/**
	 * Plans one check of an order. What the scheduler calls unique looks at the hook and the group, and would allow one for all orders.
	 *
	 * @param int $order_id The order.
	 * @param int $seconds  From now.
	 */
	private static function check_in( $order_id, $seconds ) {
		as_unschedule_action( self::CHECK_HOOK, array( $order_id ), self::GATEWAY );
		as_schedule_single_action( time() + $seconds, self::CHECK_HOOK, array( $order_id ), self::GATEWAY );
	}
}
