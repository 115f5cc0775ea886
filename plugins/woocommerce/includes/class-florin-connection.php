<?php
/**
 * The server that the shop is connected to, and the webhook endpoint that it has there.
 *
 * @package Florin
 */

defined( 'ABSPATH' ) || exit;

final class Florin_Connection {
	const SETTINGS = 'woocommerce_florin_settings';
	/** Signing secrets, by endpoint. */
	const ENDPOINT = 'florin_payments_endpoint';
	/** What the merchant has to be told. */
	const PROBLEM = 'florin_payments_problem';
	/** The server and key whose payments were looked at. */
	const PLACE = 'florin_payments_place';
	/** The address that this shop had when it was connected. */
	const SITE = 'florin_payments_site';
	/** Looks at the endpoint each day. */
	const CHECK_HOOK = 'florin_payments_check_connection';

	/**
	 * Address of the server, without a slash at the end.
	 *
	 * @return string
	 */
	public static function url() {
		return rtrim( self::setting( 'server_url' ), '/' );
	}

	/**
	 * Whether an address and a secret key are there.
	 *
	 * @return bool
	 */
	public static function is_set_up() {
		return '' !== self::url() && self::is_secret_key( self::setting( 'api_key' ) );
	}

	/**
	 * Whether payments are simulated.
	 *
	 * @return bool
	 */
	public static function is_test() {
		return 1 === preg_match( '/^(sk_test_|test_sk_)/', self::setting( 'api_key' ) );
	}

	/**
	 * The mode of the key, as payments name it.
	 *
	 * @return string
	 */
	public static function mode() {
		return self::is_test() ? 'test' : 'live';
	}

	/**
	 * Whether a text is a secret key of Florin. Public keys cannot read payments.
	 *
	 * @param string $key The text.
	 * @return bool
	 */
	public static function is_secret_key( $key ) {
		return 1 === preg_match( '/^(sk_(live|test)_|test_sk_)[A-Za-z0-9_]{8,200}$/', $key );
	}

	/**
	 * The server.
	 *
	 * @return Florin_Client
	 */
	public static function client() {
		return new Florin_Client( self::url(), self::setting( 'api_key' ) );
	}

	/**
	 * Where Florin sends webhooks.
	 *
	 * @return string
	 */
	public static function webhook_url() {
		return WC()->api_request_url( 'florin' );
	}

	/**
	 * The address by which payments name this shop. A copy of its database has another one.
	 *
	 * @return string
	 */
	public static function site() {
		return substr( (string) get_option( 'home' ), 0, 500 );
	}

	/**
	 * Whether a payment was made by this shop, and not by the one that this is a copy of.
	 *
	 * @param array $payment A payment as the API returns it.
	 * @return bool
	 */
	public static function owns( array $payment ) {
		$shop = isset( $payment['metadata']['shop'] ) ? $payment['metadata']['shop'] : '';
		return is_string( $shop ) && self::is_here( $shop );
	}

	/**
	 * Whether an address is that of this shop, with or without encryption.
	 *
	 * @param string $url The address.
	 * @return bool
	 */
	private static function is_here( $url ) {
		$plain = static function ( $text ) {
			return strtolower( rtrim( preg_replace( '#^https?://#i', '', $text ), '/' ) );
		};
		return $plain( $url ) === $plain( self::site() );
	}

	/**
	 * Whether an address is where this shop receives webhooks, or did before it changed its permalinks or turned encryption on.
	 *
	 * @param string $url The address.
	 * @return bool
	 */
	private static function is_receiver( $url ) {
		return self::webhook_url() === $url || self::is_here( preg_replace( '#/(?:(?:index\.php/)?wc-api/florin/?|\?wc-api=florin)$#', '', $url ) );
	}

	/**
	 * Whether the shop was connected at another address: it moved, or this is a copy.
	 *
	 * @return bool
	 */
	private static function has_moved() {
		$site = get_option( self::SITE );
		return is_string( $site ) && '' !== $site && self::is_set_up() && ! self::is_here( $site );
	}

	/**
	 * Whether a payment is to be left to the shop that this one is a copy of. A shop that moved has the payments of its former address again when
	 * its settings are saved.
	 *
	 * @param array $payment A payment as the API returns it.
	 * @return bool
	 */
	public static function is_of_original( array $payment ) {
		return self::has_moved() && ! self::owns( $payment );
	}

	/**
	 * Tells the merchant on each page of the administration, until it ends.
	 *
	 * @param string $problem "key", "copied", or why webhooks cannot be sent.
	 */
	public static function set_problem( $problem ) {
		if ( get_option( self::PROBLEM ) !== $problem ) {
			update_option( self::PROBLEM, $problem );
		}
	}

	/**
	 * @param string $problem As in set_problem().
	 */
	public static function end_problem( $problem ) {
		if ( get_option( self::PROBLEM ) === $problem ) {
			delete_option( self::PROBLEM );
		}
	}

	/** Shows what the merchant has to do. */
	public static function show_problem() {
		$problem = (string) get_option( self::PROBLEM );
		if ( ( '' === $problem && ! self::has_moved() ) || ! current_user_can( 'manage_woocommerce' ) ) {
			return;
		}
		if ( 'copied' !== $problem && self::has_moved() ) {
			/* translators: 1: address of the shop before, 2: address of the shop now */
			$text = sprintf( __( 'This shop was connected to Florin as %1$s and is now %2$s. If this is a copy, enter a test key here: payments of the other shop are not canceled or refunded from here. If the shop moved, save the settings of Florin once.', 'florin-payments' ), get_option( self::SITE ), self::site() );
		} elseif ( 'key' === $problem ) {
			$text = __( 'Florin refuses the API key of this shop: payments are not followed and no order is canceled for lack of payment. Enter a valid key in the settings of Florin.', 'florin-payments' );
		} elseif ( 'copied' === $problem ) {
			$text = __( 'This shop was copied: connect it again. Payments of the other shop are not canceled or refunded from here. Use a test key in a copy.', 'florin-payments' );
		} else {
			/* translators: %s: error message */
			$text = sprintf( __( 'Florin could not be connected: %s', 'florin-payments' ), $problem );
		}
		echo '<div class="notice notice-error"><p>' . esc_html( $text ) . ' <a href="' . esc_url( self::settings_url() ) . '">' . esc_html__( 'Settings', 'florin-payments' ) . '</a></p></div>';
	}

	/**
	 * The page of the settings.
	 *
	 * @return string
	 */
	public static function settings_url() {
		return admin_url( 'admin.php?page=wc-settings&tab=checkout&section=florin' );
	}

	/**
	 * Signing secrets of the endpoints that this shop made, by endpoint: one for each mode and account that it was connected to.
	 *
	 * @return string[]
	 */
	public static function signing_secrets() {
		$kept = get_option( self::ENDPOINT );
		$kept = is_array( $kept ) ? $kept : array();
		// Earlier versions knew one endpoint.
		return isset( $kept['id'], $kept['secret'] ) ? array( $kept['id'] => $kept['secret'] ) : $kept;
	}

	/**
	 * Makes sure that the server has one endpoint for this shop, whose secret is known here, and looks at the orders that wait.
	 *
	 * @throws Florin_Failure If the key does not work, or the server refuses the endpoint.
	 */
	public static function connect() {
		$client  = self::client();
		$secrets = self::signing_secrets();
		$ours    = null;
		foreach ( $client->endpoints() as $endpoint ) {
			if ( ! self::is_receiver( $endpoint['url'] ) ) {
				continue;
			}
			if ( null === $ours && isset( $secrets[ $endpoint['id'] ] ) ) {
				$ours = $endpoint;
			} else {
				// Nobody can check its signatures any more.
				$client->delete_endpoint( $endpoint['id'] );
			}
		}
		if ( null === $ours ) {
			$created = $client->create_endpoint( self::webhook_url() );
			update_option( self::ENDPOINT, array_slice( array( $created['id'] => $created['secret'] ) + $secrets, 0, 8 ), false );
		} elseif ( self::webhook_url() !== $ours['url'] || array() !== array_diff( Florin_Client::EVENTS, (array) $ours['events'] ) || empty( $ours['enabled'] ) ) {
			$client->subscribe_endpoint( $ours['id'], self::webhook_url() );
		}
		delete_option( self::PROBLEM );
		update_option( self::SITE, self::site(), false );
		self::check_later();
		Florin_Unplaced::look_later();
		$place = md5( self::url() . ' ' . self::setting( 'api_key' ) . ' ' . self::site() );
		if ( get_option( self::PLACE ) !== $place ) {
			update_option( self::PLACE, $place, false );
			Florin_Orders::look_at_all();
		}
	}

	/** Makes sure, each day, that the endpoint is still there and enabled. A shop that moved, or a copy, waits for its merchant. */
	public static function check() {
		$settings = get_option( self::SETTINGS );
		if ( ! self::is_set_up() || ! isset( $settings['enabled'] ) || 'yes' !== $settings['enabled'] ) {
			return;
		}
		self::check_later();
		if ( self::has_moved() ) {
			return;
		}
		try {
			self::connect();
		} catch ( Florin_Failure $failure ) {
			wc_get_logger()->warning( $failure->getMessage(), array( 'source' => Florin_Orders::GATEWAY ) );
		}
	}

	/** Plans the next look. */
	private static function check_later() {
		as_unschedule_action( self::CHECK_HOOK, array(), Florin_Orders::GATEWAY );
		as_schedule_single_action( time() + Florin_Orders::DAY_SECONDS, self::CHECK_HOOK, array(), Florin_Orders::GATEWAY );
	}

	/**
	 * Connects a shop whose settings were changed elsewhere, such as in WooCommerce's list of payment methods.
	 *
	 * @param mixed $before The settings before.
	 * @param mixed $after  The settings now.
	 */
	public static function settings_changed( $before, $after ) {
		if ( ! is_array( $after ) || ! isset( $after['enabled'] ) || 'yes' !== $after['enabled'] || ! self::is_set_up() ) {
			return;
		}
		$same = static function ( $name ) use ( $before, $after ) {
			return isset( $before[ $name ], $after[ $name ] ) && $before[ $name ] === $after[ $name ];
		};
		if ( is_array( $before ) && $same( 'enabled' ) && $same( 'server_url' ) && $same( 'api_key' ) ) {
			return;
		}
		try {
			self::connect();
		} catch ( Florin_Failure $failure ) {
			self::set_problem( 401 === $failure->status ? 'key' : $failure->getMessage() );
		}
	}

	/**
	 * @param string $name Name of a setting.
	 * @return string
	 */
	private static function setting( $name ) {
		$settings = get_option( self::SETTINGS );
		return is_array( $settings ) && isset( $settings[ $name ] ) ? trim( (string) $settings[ $name ] ) : '';
	}
}
