<?php
/**
 * Receives webhooks at /?wc-api=florin.
 *
 * @package Florin
 */

defined( 'ABSPATH' ) || exit;

final class Florin_Webhook {
	/** Florin waits ten seconds for an answer. */
	const READ_SECONDS = 6;
	const MAX_BYTES    = 1000000;

	/** Answers the present request. */
	public static function receive() {
		$body    = (string) file_get_contents( 'php://input', false, null, 0, self::MAX_BYTES + 1 );
		$headers = array();
		foreach ( array( 'webhook-id', 'webhook-timestamp', 'webhook-signature' ) as $name ) {
			$variable = 'HTTP_' . strtoupper( str_replace( '-', '_', $name ) );
			if ( isset( $_SERVER[ $variable ] ) ) {
				$headers[ $name ] = sanitize_text_field( wp_unslash( $_SERVER[ $variable ] ) );
			}
		}
		status_header( self::answer( $headers, $body, time() ) );
		exit;
	}

	/**
	 * Handles one delivery. The event only says which payment or refund changed: its present state is read from the server, so that an old or
	 * repeated delivery changes nothing.
	 *
	 * @param array  $headers Headers, with names in lowercase.
	 * @param string $body    The exact bytes of the body.
	 * @param int    $now     Seconds since 1970.
	 * @return int HTTP status.
	 */
	public static function answer( array $headers, $body, $now ) {
		if ( strlen( $body ) > self::MAX_BYTES ) {
			return 413;
		}
		$event = Florin_Signature::event( Florin_Connection::signing_secrets(), $headers, $body, $now );
		if ( null === $event ) {
			return 401;
		}
		$data     = isset( $event['data'] ) ? $event['data'] : array();
		$metadata = isset( $data['metadata'] ) && is_array( $data ) ? $data['metadata'] : array();
		foreach ( array( 'id', 'payment_id' ) as $name ) {
			if ( ! is_array( $data ) || ( isset( $data[ $name ] ) && ! is_string( $data[ $name ] ) ) ) {
				return 400;
			}
		}
		if ( ! is_array( $metadata ) || ( isset( $metadata['order_id'] ) && ! is_string( $metadata['order_id'] ) ) ) {
			return 400;
		}
		if ( ! isset( $data['id'] ) ) {
			return 200;
		}
		try {
			if ( isset( $data['payment_id'] ) ) {
				// A refund. It is read after its payment, in the same time.
				Florin_Refunds::note( $data['id'], $data['payment_id'], (int) ( self::READ_SECONDS / 2 ) );
				return 200;
			}
			// A test of the endpoint, or a payment that this shop did not create, names no order.
			if ( isset( $metadata['order_id'] ) && preg_match( '/^\d{1,18}$/', $metadata['order_id'] ) ) {
				Florin_Orders::refresh( (int) $metadata['order_id'], $data['id'], self::READ_SECONDS );
			}
			return 200;
		} catch ( Florin_Failure $failure ) {
			wc_get_logger()->warning( $failure->getMessage(), array( 'source' => Florin_Orders::GATEWAY ) );
			// Florin retries, unless the payment is of an account that this shop was connected to before.
			return 404 === $failure->status ? 200 : 503;
		}
	}
}
