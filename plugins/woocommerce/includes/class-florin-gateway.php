<?php
/**
 * The payment method at the checkout, and its settings.
 *
 * @package Florin
 */

defined( 'ABSPATH' ) || exit;

final class Florin_Gateway extends WC_Payment_Gateway {
	public function __construct() {
		$this->id                 = Florin_Orders::GATEWAY;
		$this->method_title       = __( 'Florin', 'florin-payments' );
		$this->method_description = __( 'Customers pay in Bitcoin, other coins or stablecoins on the payment page of your Florin server. The money goes to your own wallet.', 'florin-payments' );
		if ( ! self::has_rate() ) {
			/* translators: %s: currency */
			$this->method_description .= ' ' . sprintf( __( 'Customers do not see this payment method now: Florin has no rate for %s, the currency of this shop.', 'florin-payments' ), get_woocommerce_currency() );
		}
		$this->has_fields         = false;
		$this->supports           = array( 'products', 'refunds' );
		$this->init_form_fields();
		$this->init_settings();
		$this->title       = (string) $this->get_option( 'title' );
		$this->description = self::described( (string) $this->get_option( 'description' ) );
		add_action( 'woocommerce_update_options_payment_gateways_' . $this->id, array( $this, 'save' ) );
		add_action( 'woocommerce_thankyou_' . $this->id, array( $this, 'show_state' ) );
	}

	/** The settings. */
	public function init_form_fields() {
		$this->form_fields = array(
			'enabled'     => array(
				'title'   => __( 'Enable', 'florin-payments' ),
				'type'    => 'checkbox',
				'label'   => __( 'Show Florin at the checkout', 'florin-payments' ),
				'default' => 'no',
			),
			'server_url'  => array(
				'title'       => __( 'Server address', 'florin-payments' ),
				'type'        => 'text',
				'placeholder' => 'https://pay.example.com',
				'description' => __( 'Where your Florin server runs.', 'florin-payments' ),
				'default'     => '',
			),
			'api_key'     => array(
				'title'       => __( 'Secret API key', 'florin-payments' ),
				'type'        => 'password',
				'placeholder' => 'sk_live_...',
				'description' => __( 'Create it in the Florin dashboard under API keys. A test key (sk_test_...) simulates payments: no real money moves.', 'florin-payments' ),
				'default'     => '',
			),
			'title'       => array(
				'title'   => __( 'Title', 'florin-payments' ),
				'type'    => 'text',
				'default' => __( 'Cryptocurrency', 'florin-payments' ),
			),
			'description' => array(
				'title'   => __( 'Description', 'florin-payments' ),
				'type'    => 'textarea',
				'default' => __( 'Pay with Bitcoin, Ethereum, Litecoin, Dash, Dogecoin or a stablecoin.', 'florin-payments' ),
			),
		);
	}

	/**
	 * The text below the title, which says when payments are simulated.
	 *
	 * @param string $description From the settings.
	 * @return string
	 */
	public static function described( $description ) {
		return Florin_Connection::is_test()
			? __( 'TEST MODE: payments are simulated, no real money moves.', 'florin-payments' ) . ' ' . $description
			: $description;
	}

	/**
	 * Whether Florin can price what this shop sells.
	 *
	 * @return bool
	 */
	public static function has_rate() {
		return null !== Florin_Amounts::digits( get_woocommerce_currency() );
	}

	/**
	 * Whether WooCommerce's list of payment methods has to send the merchant to the settings first.
	 *
	 * @return bool
	 */
	public function needs_setup() {
		return ! Florin_Connection::is_set_up();
	}

	/** Saves the settings and connects the shop to the server. */
	public function save() {
		// It is connected below, with words about the result.
		remove_action( 'update_option_' . Florin_Connection::SETTINGS, array( 'Florin_Connection', 'settings_changed' ) );
		$this->process_admin_options();
		if ( 'yes' !== $this->get_option( 'enabled' ) ) {
			return;
		}
		if ( ! Florin_Connection::is_set_up() ) {
			WC_Admin_Settings::add_error( __( 'Florin needs the address of your server and a secret API key (sk_live_... or sk_test_...).', 'florin-payments' ) );
			return;
		}
		try {
			Florin_Connection::connect();
			WC_Admin_Settings::add_message(
				Florin_Connection::is_test()
					? __( 'Florin is connected in test mode: payments are simulated.', 'florin-payments' )
					: __( 'Florin is connected: customers can pay with real money.', 'florin-payments' )
			);
		} catch ( Florin_Failure $failure ) {
			WC_Admin_Settings::add_error(
				401 === $failure->status || 0 === $failure->status
					/* translators: %s: error message */
					? sprintf( __( 'Florin could not be connected: %s', 'florin-payments' ), $failure->getMessage() )
					/* translators: %s: error message */
					: sprintf( __( 'Florin cannot send webhooks to this shop: %s Orders are still updated, every five minutes.', 'florin-payments' ), $failure->getMessage() )
			);
		}
	}

	/**
	 * The currency that a customer is about to pay in: that of the order on its own page, which may be another than the shop's now.
	 *
	 * @return string
	 */
	private static function currency() {
		$id    = absint( get_query_var( 'order-pay' ) );
		$order = 0 === $id ? false : wc_get_order( $id );
		return $order instanceof WC_Order ? $order->get_currency() : get_woocommerce_currency();
	}

	/**
	 * Whether customers see the payment method.
	 *
	 * @return bool
	 */
	public function is_available() {
		return parent::is_available() && Florin_Connection::is_set_up() && null !== Florin_Amounts::digits( self::currency() );
	}

	/**
	 * Sends the customer to the payment page.
	 *
	 * @param int $order_id The order.
	 * @return array
	 */
	public function process_payment( $order_id ) {
		$order = wc_get_order( $order_id );
		try {
			$page = Florin_Orders::payment_page( $order_id, $this->get_return_url( $order ) );
			return array(
				'result'   => 'success',
				'redirect' => $page,
			);
		} catch ( Florin_Failure $failure ) {
			wc_get_logger()->error( $failure->getMessage(), array( 'source' => $this->id ) );
			if ( 'order_deleted' !== $failure->error_code ) {
				/* translators: %s: error message */
				$order->add_order_note( sprintf( __( 'The Florin payment could not be created: %s', 'florin-payments' ), $failure->getMessage() ) );
			}
			wc_add_notice(
				self::is_never( $failure )
					? ( 'currency' === $failure->error_code
						? __( 'Cryptocurrency payments are not possible in this currency. Choose another way to pay.', 'florin-payments' )
						: __( 'Cryptocurrency payments are not possible for this order. Choose another way to pay.', 'florin-payments' ) )
					: __( 'We cannot reach our cryptocurrency payments right now. If you have paid already, you do not have to pay again. Otherwise try again in a minute, or choose another way to pay.', 'florin-payments' ),
				'error'
			);
			return array( 'result' => 'failure' );
		}
	}

	/**
	 * Whether another attempt would fail the same way: the amount is too small for every coin, or the like.
	 *
	 * @param Florin_Failure $failure Why no payment was created.
	 * @return bool
	 */
	private static function is_never( Florin_Failure $failure ) {
		return 'currency' === $failure->error_code || ( 400 <= $failure->status && $failure->status < 500 && ! in_array( $failure->status, array( 401, 408, 409, 425, 429 ), true ) );
	}

	/**
	 * Shows the state of the payment to a customer who returns, and updates the order in case no webhook arrived yet.
	 *
	 * @param int $order_id The order.
	 */
	public function show_state( $order_id ) {
		try {
			$payments = Florin_Orders::settle( $order_id, Florin_Webhook::READ_SECONDS );
		} catch ( Florin_Failure $failure ) {
			wc_get_logger()->warning( $failure->getMessage(), array( 'source' => $this->id ) );
			$payments = null;
		}
		$order = wc_get_order( $order_id );
		$pay   = '';
		if ( ! $order ) {
			return;
		}
		if ( $order->is_paid() ) {
			$text = __( 'Your payment is confirmed.', 'florin-payments' );
		} elseif ( null === $payments ) {
			$text = __( 'We cannot reach our payment service right now. If you have paid, you do not have to pay again: we update your order as soon as we can.', 'florin-payments' );
		} elseif ( in_array( 'processing', array_column( $payments, 'status' ), true ) ) {
			$text = __( 'We received your payment and are waiting for the network to confirm it. You do not have to do anything.', 'florin-payments' );
		} elseif ( $order->has_status( 'on-hold' ) && '' !== (string) $order->get_meta( Florin_Orders::ASKED ) ) {
			/* translators: 1: total that was paid, 2: total of the order */
			$text = sprintf( __( 'You paid %1$s, and the total of this order is %2$s now. We are looking at it, and you do not have to do anything.', 'florin-payments' ), $order->get_meta( Florin_Orders::ASKED ), Florin_Amounts::in( (string) $order->get_total(), $order->get_currency() ) . ' ' . $order->get_currency() );
		} elseif ( $order->has_status( 'on-hold' ) || array() !== array_filter( $payments, array( 'Florin_Decisions', 'waits_for_merchant' ) ) ) {
			$text = __( 'We received your payment and are looking at it. You do not have to pay again.', 'florin-payments' );
		} elseif ( $order->has_status( 'pending' ) && array() !== $payments ) {
			$text = Florin_Decisions::has_money( $payments[0] )
				? __( 'A part of your payment arrived. The payment page shows what is missing.', 'florin-payments' )
				: __( 'We have not seen your payment yet.', 'florin-payments' );
			$pay  = $payments[0]['payment_url'];
		} else {
			return;
		}
		echo '<p class="florin-state">' . esc_html( $text );
		if ( '' !== $pay ) {
			echo ' <a href="' . esc_url( $pay ) . '">' . esc_html__( 'Continue to the payment page', 'florin-payments' ) . '</a>';
		}
		echo '</p>';
	}

	/**
	 * Requests a refund in Florin. The customer gives an address on a claim page, and the merchant signs the refund.
	 *
	 * @param int         $order_id The order.
	 * @param string|null $amount   Amount in the order's currency.
	 * @param string      $reason   Why, as the merchant wrote it.
	 * @return bool|WP_Error
	 */
	public function process_refund( $order_id, $amount = null, $reason = '' ) {
		$order      = wc_get_order( $order_id );
		$payment_id = $order ? Florin_Refunds::source( $order ) : '';
		$rounded    = $order ? Florin_Amounts::in( (string) $amount, $order->get_currency() ) : null;
		if ( '' === $payment_id || ! Florin_Amounts::is_some( $rounded ) ) {
			return new WP_Error( 'florin_refund', __( 'Only an amount of a confirmed payment can be refunded here. Decide about other money in the Florin dashboard.', 'florin-payments' ) );
		}
		try {
			$refund = Florin_Refunds::request(
				$order,
				Florin_Connection::client(),
				array(
					'payment_id'    => $payment_id,
					'amount'        => $rounded,
					'currency_fiat' => $order->get_currency(),
					'reason'        => Florin_Refunds::reason( (string) $reason ),
					// The shop sends the link itself. Anyone with the link of the payment page could have left an email address there.
					'email'         => null,
				)
			);
		} catch ( Florin_Failure $failure ) {
			$message = $failure->getMessage();
			if ( 404 === $failure->status && 'unknown_route' === $failure->error_code ) {
				$message = __( 'This version of Florin does not create refunds yet. Send the money from your wallet and mark the payment as refunded in the dashboard.', 'florin-payments' );
			} elseif ( $failure->status >= 400 ) {
				// The server speaks of coins, and the merchant of the order's currency.
				/* translators: 1: amount and currency, 2: error message */
				$message = sprintf( __( 'A refund of %1$s was not requested: %2$s', 'florin-payments' ), $rounded . ' ' . $order->get_currency(), $message );
			}
			return new WP_Error( 'florin_refund', $message );
		}
		if ( Florin_Refunds::needs_address( $refund ) ) {
			Florin_Refunds::mail_link( $order, $refund, $rounded . ' ' . $order->get_currency() );
			/* translators: %s: amount and currency */
			$order->add_order_note( sprintf( __( 'A refund of %s was requested in Florin, and the customer was sent an email with a link to enter an address. After that, approve and sign it in Florin. You can also create a new link there.', 'florin-payments' ), $rounded . ' ' . $order->get_currency() ) );
		} else {
			$order->add_order_note( __( 'The refund was requested in Florin. Approve and sign it there.', 'florin-payments' ) );
		}
		return true;
	}
}
