<?php
/**
 * Amounts as decimal text. Floats are never used: 0.1 + 0.2 is not 0.3 in them.
 *
 * @package Florin
 */

defined( 'ABSPATH' ) || exit;

final class Florin_Amounts {
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
	 * Whether two amounts are the same number.
	 *
	 * @param mixed $one   Decimal text.
	 * @param mixed $other Decimal text.
	 * @return bool
	 */
	public static function same( $one, $other ) {
		$normal = self::normal( $one );
		return null !== $normal && self::normal( $other ) === $normal;
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
}
