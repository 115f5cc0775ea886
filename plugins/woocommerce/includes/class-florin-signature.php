<?php
/**
 * Signatures of webhooks, as described by Standard Webhooks (https://www.standardwebhooks.com/).
 *
 * @package Florin
 */

defined( 'ABSPATH' ) || exit;

final class Florin_Signature {
	const TOLERANCE_SECONDS = 300;

	/**
	 * Reads the event of a delivery.
	 *
	 * @param array  $secrets Signing secrets of the endpoints of this shop, "whsec_...".
	 * @param array  $headers Headers of the request, with names in lowercase.
	 * @param string $body    The exact bytes of the body.
	 * @param int    $now     Seconds since 1970.
	 * @return array|null Null if the delivery is not signed with one of them, or is too old.
	 */
	public static function event( array $secrets, array $headers, $body, $now ) {
		$id        = isset( $headers['webhook-id'] ) ? (string) $headers['webhook-id'] : '';
		$timestamp = isset( $headers['webhook-timestamp'] ) ? (string) $headers['webhook-timestamp'] : '';
		if ( '' === $id || ! preg_match( '/^\d{1,12}$/', $timestamp ) || abs( $now - (int) $timestamp ) > self::TOLERANCE_SECONDS ) {
			return null;
		}
		$right = false;
		foreach ( $secrets as $secret ) {
			// Anyone can sign with an empty secret.
			$key = 0 === strpos( (string) $secret, 'whsec_' ) ? base64_decode( substr( $secret, 6 ), true ) : false;
			if ( false === $key || strlen( $key ) < 16 ) {
				continue;
			}
			$expected = 'v1,' . base64_encode( hash_hmac( 'sha256', $id . '.' . $timestamp . '.' . $body, $key, true ) );
			foreach ( explode( ' ', isset( $headers['webhook-signature'] ) ? (string) $headers['webhook-signature'] : '' ) as $signature ) {
				$right = hash_equals( $expected, $signature ) || $right;
			}
		}
		if ( ! $right ) {
			return null;
		}
		$event = json_decode( $body, true );
		return is_array( $event ) && isset( $event['id'] ) && $event['id'] === $id ? $event : null;
	}
}
