<?php
/**
 * The server that the shop is connected to, and the webhook endpoint that it has there.
 *
 * @package Florin
 */

defined( 'ABSPATH' ) || exit;

final class Florin_Connection {
	const SETTINGS = 'woocommerce_florin_settings';
	/** Endpoint ID, signing secret, and what they belong to. */
	const ENDPOINT = 'florin_payments_endpoint';

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
	 * Signing secret of the endpoint; empty if there is none.
	 *
	 * @return string
	 */
	public static function signing_secret() {
		$endpoint = get_option( self::ENDPOINT );
		return is_array( $endpoint ) && isset( $endpoint['secret'] ) ? (string) $endpoint['secret'] : '';
	}

	/**
	 * Makes sure that the server has an endpoint for this shop. Called when the settings are saved.
	 *
	 * @throws Florin_Failure If the key does not work, or the server refuses the endpoint.
	 */
	public static function connect() {
		$client   = self::client();
		$place    = md5( self::url() . ' ' . self::setting( 'api_key' ) . ' ' . self::webhook_url() );
		$endpoint = get_option( self::ENDPOINT );
		if ( is_array( $endpoint ) && isset( $endpoint['id'], $endpoint['place'] ) && $endpoint['place'] === $place ) {
			try {
				// An older version of the plugin asked for fewer events.
				if ( array() !== array_diff( Florin_Client::EVENTS, (array) $client->endpoint( $endpoint['id'] )['events'] ) ) {
					$client->subscribe_endpoint( $endpoint['id'] );
				}
				return;
			} catch ( Florin_Failure $failure ) {
				if ( 404 !== $failure->status ) {
					throw $failure;
				}
			}
		}
		$created = $client->create_endpoint( self::webhook_url() );
		update_option(
			self::ENDPOINT,
			array(
				'id'     => $created['id'],
				'secret' => $created['secret'],
				'place'  => $place,
			),
			false
		);
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
