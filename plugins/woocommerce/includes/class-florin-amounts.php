<?php
/**
 * Amounts as decimal text. Floats are never used: 0.1 + 0.2 is not 0.3 in them.
 *
 * @package Florin
 */

defined( 'ABSPATH' ) || exit;

final class Florin_Amounts {
	/** Currencies that Florin has a rate for, by their digits after the point. */
	const CURRENCIES = array(
		0 => 'JPY BIF CLP DJF GNF ISK KMF KRW PYG RWF UGX VND VUV XAF XOF XPF',
		2 => 'USD EUR GBP CAD AUD CHF AED ALL AMD AOA ARS AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CDF CNY COP CRC CVE CZK DKK DOP DZD EGP ETB FJD GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR JMD KES KGS KHR KYD KZT LAK LKR LRD LSL MAD MDL MGA MKD MNT MOP MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD SAR SBD SCR SEK SGD SRD SZL THB TJS TOP TRY TTD TWD TZS UAH UYU UZS WST XCD ZAR ZMW',
		3 => 'BHD IQD JOD KWD OMR TND',
	);

	/**
	 * Digits after the point in a currency.
	 *
	 * @param string $currency Such as "JPY".
	 * @return int|null Null if Florin has no rate for it.
	 */
	public static function digits( $currency ) {
		foreach ( self::CURRENCIES as $digits => $currencies ) {
			if ( in_array( $currency, explode( ' ', $currencies ), true ) ) {
				return $digits;
			}
		}
		return null;
	}

	/**
	 * An amount in a currency, rounded to its digits and written with all of them. Shops can be set to other digits.
	 *
	 * @param mixed  $amount   Decimal text.
	 * @param string $currency Such as "JPY".
	 * @return string|null Null if it is no amount that Florin takes.
	 */
	public static function in( $amount, $currency ) {
		$digits = self::digits( $currency );
		$normal = self::normal( $amount );
		if ( null === $digits || null === $normal ) {
			return null;
		}
		list( $whole, $fraction ) = explode( '.', $normal . '.' );
		if ( strlen( $whole ) > 12 ) {
			return null;
		}
		$fraction = str_pad( $fraction, $digits + 1, '0' );
		$minor    = (int) ( $whole . substr( $fraction, 0, $digits ) ) + ( $fraction[ $digits ] >= '5' ? 1 : 0 );
		$text     = str_pad( (string) $minor, $digits + 1, '0', STR_PAD_LEFT );
		return 0 === $digits ? $text : substr( $text, 0, -$digits ) . '.' . substr( $text, -$digits );
	}
	/**
	 * The one way to write an amount: no zeros at the front of the whole part, none at the end of the fraction.
	 *
	 * @param mixed $amount Decimal text, such as "25.50" or "030".
	 * @return string|null Null if it is not a decimal number without a sign.
	 */
	public static function normal( $amount ) {
		if ( ! is_string( $amount ) && ! is_int( $amount ) ) {
			return null;
		}
		if ( ! preg_match( '/^(\d{1,30})(?:\.(\d{0,30}))?$/', trim( (string) $amount ), $parts ) ) {
			return null;
		}
		$whole    = ltrim( $parts[1], '0' );
		$fraction = rtrim( isset( $parts[2] ) ? $parts[2] : '', '0' );
		return ( '' === $whole ? '0' : $whole ) . ( '' === $fraction ? '' : '.' . $fraction );
	}

	/**
	 * Whether an amount is more than nothing.
	 *
	 * @param mixed $amount Decimal text.
	 * @return bool
	 */
	public static function is_some( $amount ) {
		$normal = self::normal( $amount );
		return null !== $normal && '0' !== $normal;
	}

	/**
	 * Whether an amount is larger than another one.
	 *
	 * @param mixed $amount Decimal text.
	 * @param mixed $other  Decimal text.
	 * @return bool
	 */
	public static function exceeds( $amount, $other ) {
		$even = static function ( $text ) {
			list( $whole, $fraction ) = explode( '.', (string) self::normal( $text ) . '.' );
			return str_pad( $whole, 30, '0', STR_PAD_LEFT ) . str_pad( $fraction, 30, '0' );
		};
		return strcmp( $even( $amount ), $even( $other ) ) > 0;
	}
}
