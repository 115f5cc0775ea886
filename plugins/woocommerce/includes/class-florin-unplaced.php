<?php
/**
 * Money that belongs to no order of this shop: the order was deleted, or the database was put back to a day before it.
 *
 * @package Florin
 */

defined( 'ABSPATH' ) || exit;

final class Florin_Unplaced {
	/** What the merchant has to be told, by payment. */
	const OPTION = 'florin_payments_unplaced';
	/** Action of the link that ends a notice. */
	const SEEN = 'florin_payments_seen';
	/** The newest payment that was looked at, by its time. In a database that is put back to an earlier day, it is the one of that day. */
	const LOOKED = 'florin_payments_looked';
	/** Looks at a page of payments. */
	const LOOK_HOOK = 'florin_payments_look';
	/** What is looked at again each day: a payment is open for a day at most. */
	const AGAIN_SECONDS = 172800;
	/** Notices on one page; the others follow when these are dismissed. */
	const SHOWN = 5;

	/**
	 * Keeps a payment of this shop if money came for it that was not returned.
	 *
	 * @param array  $payment A payment as the API returns it.
	 * @param string $number  Number of the order.
	 */
	public static function look( array $payment, $number ) {
		$returned = Florin_Amounts::normal( $payment['amount_refunded'] );
		if ( ! Florin_Connection::owns( $payment ) || ! Florin_Decisions::has_money( $payment ) || ( Florin_Amounts::is_some( $returned ) && Florin_Amounts::normal( $payment['amount_received'] ) === $returned ) ) {
			return;
		}
		/* translators: %s: order number */
		self::report( $payment, sprintf( __( 'The shop does not have order %s any more, or has it in the trash.', 'florin-payments' ), $number ) );
		/* translators: 1: order number, 2: amount that was asked for, 3: payment ID */
		self::keep( $payment['id'], $payment['mode'], sprintf( __( 'Money arrived for order %1$s, which this shop does not have any more or has in the trash: %2$s, payment %3$s. Refund the payment in Florin, or create the order again.', 'florin-payments' ), $number, Florin_Notes::asked( $payment ), $payment['id'] ) );
	}

	/**
	 * Tells Florin what is missing, so that the payment appears there too among those that need attention.
	 *
	 * @param array       $payment A payment of this shop as the API returns it.
	 * @param string|null $text    For the merchant; null if it has an order.
	 */
	public static function report( array $payment, $text ) {
		$told = isset( $payment['metadata']['order_missing'] ) ? $payment['metadata']['order_missing'] : null;
		if ( $text === $told ) {
			return;
		}
		try {
			Florin_Connection::client()->set_order_missing( $payment['id'], $payment['metadata']['shop'], $text );
		} catch ( Florin_Failure $failure ) {
			// The merchant is told here in any case.
			wc_get_logger()->warning( $failure->getMessage(), array( 'source' => Florin_Orders::GATEWAY ) );
		}
	}

	/**
	 * Plans to look at all payments that this shop made lately. In a database that was put back to an earlier day, orders and what was said about
	 * them are missing, and no webhook tells about their money again.
	 */
	public static function look_later() {
		$looked = strtotime( (string) get_option( self::LOOKED ) );
		$since  = min( false === $looked ? time() : $looked, time() - self::AGAIN_SECONDS );
		self::look_at_page_later( array( gmdate( 'Y-m-d\TH:i:s\Z', $since ), '', '' ) );
	}

	/**
	 * @param string[] $page As in look_at_page().
	 */
	private static function look_at_page_later( array $page ) {
		as_schedule_single_action( time(), self::LOOK_HOOK, $page, Florin_Orders::GATEWAY );
	}

	/**
	 * Applies the payments of a page whose orders do not know them, and plans the next page. After a failure, the next day's look begins at the
	 * same time.
	 *
	 * @param string $since  Not payments that are older.
	 * @param string $after  Last payment of the page before, or an empty string.
	 * @param string $newest Time of the first payment of the first page, or an empty string.
	 */
	public static function look_at_page( $since, $after, $newest ) {
		$client = Florin_Connection::client();
		try {
			$page = $client->payments_of( Florin_Connection::site(), $since, $after );
			foreach ( $page['data'] as $row ) {
				$after  = $row['id'];
				$newest = '' === $newest ? $row['created_at'] : $newest;
				if ( ( 'pending' === $row['status'] && null === $row['exception'] ) || self::is_placed( $row ) ) {
					continue;
				}
				$metadata = $client->payment( $row['id'] )['metadata'];
				if ( isset( $metadata['order_id'] ) && preg_match( '/^\d{1,18}$/', $metadata['order_id'] ) ) {
					Florin_Orders::refresh( (int) $metadata['order_id'], $row['id'] );
				}
			}
		} catch ( Florin_Failure $failure ) {
			wc_get_logger()->warning( $failure->getMessage(), array( 'source' => Florin_Orders::GATEWAY ) );
			return;
		}
		if ( ! empty( $page['has_more'] ) ) {
			self::look_at_page_later( array( $since, $after, $newest ) );
		} elseif ( '' !== $newest ) {
			update_option( self::LOOKED, $newest, false );
		}
	}

	/**
	 * Whether the order of a payment knows it, and therefore follows it.
	 *
	 * @param array $row A payment as the API lists it.
	 * @return bool
	 */
	private static function is_placed( array $row ) {
		$order = isset( $row['invoice_id'] ) && preg_match( '/^\d{1,18}$/', $row['invoice_id'] ) ? wc_get_order( (int) $row['invoice_id'] ) : false;
		return $order instanceof WC_Order && in_array( $row['id'], Florin_Orders::payment_ids( $order ), true );
	}

	/**
	 * Keeps a payment that could not be canceled when its order was deleted.
	 *
	 * @param string $id     The payment.
	 * @param string $mode   "live" or "test".
	 * @param string $number Number of the order.
	 */
	public static function unknown( $id, $mode, $number ) {
		/* translators: 1: order number, 2: payment ID */
		self::keep( $id, $mode, sprintf( __( 'Order %1$s was deleted, and its payment %2$s could not be canceled. Anyone who has its page can still pay it: cancel or refund the payment in Florin.', 'florin-payments' ), $number, $id ) );
	}

	/**
	 * @param string $id   The payment.
	 * @param string $mode "live" or "test".
	 * @param string $text For the merchant.
	 */
	private static function keep( $id, $mode, $text ) {
		self::change(
			static function ( array $kept ) use ( $id, $mode, $text ) {
				// What was dismissed stays dismissed, until there is something else to say.
				if ( isset( $kept[ $id ] ) && $kept[ $id ]['text'] === $text ) {
					return $kept;
				}
				return array(
					$id => array(
						'mode' => $mode,
						'text' => $text,
						'seen' => false,
					),
				) + $kept;
			}
		);
	}

	/**
	 * @param callable $change Gets what is kept, and returns what is kept then.
	 */
	private static function change( $change ) {
		Florin_Orders::locked(
			'unplaced',
			static function () use ( $change ) {
				wp_cache_delete( self::OPTION, 'options' );
				wp_cache_delete( 'notoptions', 'options' );
				update_option( self::OPTION, $change( self::kept() ), false );
			}
		);
	}

	/**
	 * @return array[]
	 */
	private static function kept() {
		$kept = get_option( self::OPTION );
		return is_array( $kept ) ? $kept : array();
	}

	/** Tells the merchant on each page of the administration, until it is dismissed. */
	public static function show() {
		if ( ! current_user_can( 'manage_woocommerce' ) ) {
			return;
		}
		$open = array_filter(
			self::kept(),
			static function ( $one ) {
				return ! $one['seen'];
			}
		);
		foreach ( array_slice( $open, 0, self::SHOWN ) as $id => $one ) {
			$seen = wp_nonce_url( admin_url( 'admin-post.php?action=' . self::SEEN . '&payment=' . rawurlencode( $id ) ), self::SEEN );
			echo '<div class="notice notice-warning"><p>' . esc_html( $one['text'] ) . ' ' . wp_kses_post( Florin_Notes::link( $id, $one['mode'] ) ) . ' | <a href="' . esc_url( $seen ) . '">' . esc_html__( 'Dismiss', 'florin-payments' ) . '</a></p></div>';
		}
	}

	/** Ends a notice. */
	public static function dismiss() {
		check_admin_referer( self::SEEN );
		if ( ! current_user_can( 'manage_woocommerce' ) ) {
			wp_die( esc_html__( 'You are not allowed to do this.', 'florin-payments' ), '', array( 'response' => 403 ) );
		}
		$id = isset( $_GET['payment'] ) ? sanitize_text_field( wp_unslash( $_GET['payment'] ) ) : '';
		self::change(
			static function ( array $kept ) use ( $id ) {
				if ( isset( $kept[ $id ] ) ) {
					$kept[ $id ]['seen'] = true;
				}
				return $kept;
			}
		);
		wp_safe_redirect( wp_get_referer() ? wp_get_referer() : admin_url() );
		exit;
	}
}
