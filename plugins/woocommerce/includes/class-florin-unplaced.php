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
		/* translators: 1: order number, 2: amount that was asked for, 3: payment ID */
		self::keep( $payment['id'], $payment['mode'], sprintf( __( 'Money arrived for order %1$s, which this shop does not have any more or has in the trash: %2$s, payment %3$s. Refund the payment in Florin, or create the order again.', 'florin-payments' ), $number, Florin_Notes::asked( $payment ), $payment['id'] ) );
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
