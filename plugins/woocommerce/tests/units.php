<?php
/**
 * Tests of the parts that need no server. Prints one line for each check that fails, and ends with status 1 if any does.
 *
 * @package Florin
 */

require __DIR__ . '/wordpress.php';

$failed = 0;
function check( $what, $expected, $actual ) {
	global $failed;
	if ( $expected !== $actual ) {
		++$failed;
		echo $what, ': expected ', json_encode( $expected ), ', got ', json_encode( $actual ), "\n";
	}
}

foreach (
	array(
		array( '25.50', '25.5' ),
		array( '030.00', '30' ),
		array( '0.00', '0' ),
		array( '.5', null ),
		array( '-1', null ),
		array( '1e3', null ),
		array( '1,5', null ),
		array( '', null ),
		array( null, null ),
		array( 0.1, null ),
		array( 7, '7' ),
	) as list( $amount, $normal )
) {
	check( 'normal ' . json_encode( $amount ), $normal, Florin_Amounts::normal( $amount ) );
}
foreach (
	array(
		array( '1098.90', 'JPY', '1099' ),
		array( '10.1234', 'EUR', '10.12' ),
		array( '10.995', 'EUR', '11.00' ),
		array( '0.004', 'EUR', '0.00' ),
		array( '1.5', 'KWD', '1.500' ),
		array( '0.0005', 'KWD', '0.001' ),
		array( '1000.5', 'KRW', '1001' ),
		array( '7', 'USD', '7.00' ),
		array( '-1', 'USD', null ),
		array( '7', 'CUP', null ),
		array( '7', 'ARS', '7.00' ),
		array( '1234567890123', 'USD', null ),
	) as list( $amount, $currency, $rounded )
) {
	check( "$amount in $currency", $rounded, Florin_Amounts::in( $amount, $currency ) );
}

$payment = static function ( array $more ) {
	return $more + array(
		'id'              => 'pay_1',
		'status'          => 'pending',
		'exceptions'      => array(),
		'amount_usd'      => '11.00',
		'amount_fiat'     => '10.00',
		'currency_fiat'   => 'EUR',
		'amount_received' => '0',
		'amount_overpaid' => '0',
		'amount_held'     => '0',
		'created_at'      => '2026-01-01T00:00:00.000Z',
	);
};
$order = static function ( array $more ) {
	return $more + array(
		'own'      => true,
		'status'   => 'pending',
		'paid'     => false,
		'left'     => array(),
		'total'    => '10',
		'currency' => 'EUR',
		'current'  => 'pay_1',
		'booked'   => '',
		'awaited'  => '',
		'reversed' => false,
	);
};
$paid = array( 'status' => 'processing', 'paid' => true, 'booked' => 'pay_1' );
foreach (
	array(
		array( 'nothing yet', array(), array(), array() ),
		array( 'seen', array( 'status' => 'processing' ), array(), array( array( 'status', 'on-hold', 'processing' ) ) ),
		array( 'seen, told after it was paid', array( 'status' => 'processing' ), $paid, array() ),
		array( 'seen, shipped', array( 'status' => 'processing' ), array( 'status' => 'completed' ) + $paid, array() ),
		array( 'confirmed', array( 'status' => 'completed' ), array(), array( array( 'complete' ) ) ),
		array( 'confirmed after on-hold', array( 'status' => 'completed' ), array( 'status' => 'on-hold' ), array( array( 'complete' ) ) ),
		array( 'confirmed twice', array( 'status' => 'completed' ), $paid, array() ),
		array( 'confirmed after a cancel', array( 'status' => 'completed' ), array( 'status' => 'cancelled', 'current' => '' ), array( array( 'status', 'on-hold', 'after_cancel' ) ) ),
		array( 'on hold after a cancel, told again', array( 'status' => 'completed' ), array( 'status' => 'on-hold', 'left' => array( 'pay_1' ) ), array() ),
		array( 'confirmed after a refund by hand', array( 'status' => 'completed' ), array( 'status' => 'refunded' ), array( array( 'note', 'refunded' ) ) ),
		array( 'confirmed after a full refund of it', array( 'status' => 'completed' ), array( 'status' => 'refunded' ) + $paid, array() ),
		array( 'confirmed, but another method was chosen', array( 'status' => 'completed' ), array( 'own' => false ), array( array( 'note', 'elsewhere' ) ) ),
		array( 'seen, but another method was chosen', array( 'status' => 'processing' ), array( 'own' => false ), array( array( 'note', 'elsewhere' ) ) ),
		array( 'expired, but another method was chosen', array( 'status' => 'expired' ), array( 'own' => false ), array() ),
		array( 'open, but another method was chosen', array(), array( 'own' => false ), array( array( 'cancel' ) ) ),
		array( 'a part, but another method was chosen', array( 'exceptions' => array( 'underpaid' ) ), array( 'own' => false ), array( array( 'note', 'partial' ) ) ),
		array( 'open, and the order was canceled', array(), array( 'status' => 'cancelled' ), array( array( 'cancel' ) ) ),
		array( 'open, and another one is asked for', array(), array( 'current' => 'pay_2' ), array( array( 'cancel' ) ) ),
		array( 'a status of another plugin', array( 'status' => 'completed' ), array( 'status' => 'quote' ), array( array( 'note', 'elsewhere' ) ) ),
		array( 'a second payment', array( 'id' => 'pay_2', 'status' => 'completed' ), $paid, array( array( 'note', 'second' ) ) ),
		array( 'a second payment on its way', array( 'id' => 'pay_2', 'status' => 'processing' ), $paid, array( array( 'note', 'second' ) ) ),
		array( 'paid by hand', array( 'status' => 'completed' ), array( 'booked' => '' ) + $paid, array( array( 'note', 'second' ) ) ),
		array( 'another total', array( 'status' => 'completed' ), array( 'total' => '12.00' ), array( array( 'status', 'on-hold', 'other_total' ) ) ),
		array( 'another currency', array( 'status' => 'completed' ), array( 'currency' => 'USD' ), array( array( 'status', 'on-hold', 'other_total' ) ) ),
		array( 'confirmed, but completing the order failed', array( 'status' => 'completed' ), array( 'booked' => 'pay_1' ), array( array( 'complete' ) ) ),
		array( 'overpaid', array( 'status' => 'completed', 'exceptions' => array( 'overpaid' ) ), array(), array( array( 'complete' ), array( 'note', 'overpaid' ) ) ),
		array( 'confirmed, and returned before', array( 'status' => 'completed', 'amount_refunded' => '0.00100000' ), array(), array( array( 'status', 'on-hold', 'returned' ) ) ),
		array( 'confirmed, and a refund of it was requested', array( 'status' => 'completed', 'returning' => true ), array(), array( array( 'status', 'on-hold', 'returned' ) ) ),
		array( 'returned before, and the order was canceled', array( 'status' => 'completed', 'amount_refunded' => '0.001' ), array( 'status' => 'cancelled' ), array( array( 'note', 'returned' ) ) ),
		array( 'returned after it was paid', array( 'status' => 'completed', 'amount_refunded' => '0.001' ), $paid, array() ),
		array( 'returned before, told again', array( 'status' => 'completed', 'amount_refunded' => '0.001' ), array( 'status' => 'on-hold', 'left' => array( 'pay_1' ) ), array() ),
		array( 'overpaid, and the rest was returned', array( 'status' => 'completed', 'exceptions' => array( 'overpaid' ), 'amount_overpaid' => '0.0010', 'amount_refunded' => '0.001', 'returning' => true ), array(), array( array( 'complete' ), array( 'note', 'overpaid' ) ) ),
		array( 'overpaid, and more than the rest was returned', array( 'status' => 'completed', 'exceptions' => array( 'overpaid' ), 'amount_overpaid' => '9.9', 'amount_refunded' => '10.01' ), array(), array( array( 'status', 'on-hold', 'returned' ), array( 'note', 'overpaid' ) ) ),
		array( 'expired', array( 'status' => 'expired' ), array(), array( array( 'status', 'failed', 'expired' ) ) ),
		array( 'an old payment expired', array( 'status' => 'expired' ), array( 'current' => 'pay_2' ), array() ),
		array( 'expired, paid otherwise', array( 'status' => 'expired' ), $paid, array() ),
		array( 'too little', array( 'status' => 'failed', 'amount_received' => '0.1', 'exceptions' => array( 'underpaid' ) ), array(), array( array( 'status', 'on-hold', 'underpaid' ) ) ),
		array( 'too little, and the order was refunded by hand', array( 'status' => 'failed', 'amount_received' => '0.1', 'exceptions' => array( 'underpaid' ) ), array( 'status' => 'refunded' ), array( array( 'note', 'underpaid' ) ) ),
		array( 'seen for an order that is on hold', array( 'status' => 'processing' ), array( 'status' => 'on-hold' ), array( array( 'note', 'processing' ) ) ),
		array( 'double spend', array( 'status' => 'failed' ), array( 'status' => 'on-hold' ), array( array( 'status', 'failed', 'failed' ) ) ),
		array( 'late', array( 'status' => 'expired', 'exceptions' => array( 'late' ) ), array( 'status' => 'cancelled' ), array( array( 'note', 'late' ) ) ),
		array( 'late for a paid order', array( 'status' => 'expired', 'exceptions' => array( 'late' ) ), $paid, array( array( 'note', 'late' ) ) ),
		array( 'reversed', array( 'status' => 'completed', 'exceptions' => array( 'reorged' ) ), $paid, array( array( 'status', 'on-hold', 'reorged' ) ) ),
		array( 'reversed, shipped', array( 'status' => 'completed', 'exceptions' => array( 'reorged' ) ), array( 'status' => 'completed' ) + $paid, array( array( 'note', 'reorged' ) ) ),
		array( 'restored', array( 'status' => 'completed' ), array( 'status' => 'on-hold', 'reversed' => true ) + $paid, array( array( 'status', 'processing', 'restored' ) ) ),
		array( 'a part', array( 'exceptions' => array( 'underpaid' ) ), array(), array( array( 'note', 'partial' ) ) ),
		array( 'replaced', array( 'exceptions' => array( 'replaced' ) ), array( 'status' => 'on-hold' ), array( array( 'status', 'pending', 'replaced' ) ) ),
		array( 'dropped by the network', array(), array( 'status' => 'on-hold', 'awaited' => 'pay_1' ), array( array( 'status', 'pending', 'replaced' ) ) ),
		array( 'dropped and expired, told at once', array( 'status' => 'expired' ), array( 'status' => 'on-hold', 'awaited' => 'pay_1' ), array( array( 'status', 'failed', 'expired' ) ) ),
		array( 'expired, put on hold by hand', array( 'status' => 'expired' ), array( 'status' => 'on-hold' ), array() ),
		array( 'dropped, and another one came late', array( 'status' => 'expired', 'exceptions' => array( 'late' ) ), array( 'status' => 'on-hold', 'awaited' => 'pay_1' ), array( array( 'note', 'late' ) ) ),
		array( 'a part, on hold', array( 'exceptions' => array( 'underpaid' ) ), array( 'status' => 'on-hold', 'awaited' => 'pay_1' ), array( array( 'note', 'partial' ) ) ),
		array( 'canceled', array( 'status' => 'cancelled' ), array(), array( array( 'status', 'cancelled', 'cancelled' ) ) ),
	) as list( $name, $of_payment, $of_order, $steps )
) {
	check( $name, $steps, Florin_Decisions::steps( $payment( $of_payment ), $order( $of_order ) ) );
}

// Whatever state a payment and its order are in: money that came is named, unless it paid the order or the merchant was asked about it.
$reasons = array(
	'pending'    => array( array(), array( 'underpaid' ), array( 'wrong_token' ), array( 'wrong_network' ), array( 'replaced' ) ),
	'processing' => array( array(), array( 'overpaid' ) ),
	'completed'  => array( array(), array( 'overpaid' ), array( 'reorged' ) ),
	'expired'    => array( array( 'late' ), array( 'wrong_token' ), array( 'late', 'wrong_network' ) ),
	'failed'     => array( array( 'underpaid' ), array( 'underpaid', 'late' ), array( 'late' ) ),
	'cancelled'  => array( array( 'paid_after_cancel' ), array( 'underpaid', 'paid_after_cancel' ) ),
);
foreach ( $reasons as $status => $exceptions ) {
	foreach ( $exceptions as $of_payment ) {
		foreach ( array( 'pending', 'checkout-draft', 'on-hold', 'failed', 'processing', 'completed', 'cancelled', 'refunded', 'trash', 'quote' ) as $of_order ) {
			foreach ( array( true, false ) as $own ) {
				foreach ( array( 'pay_1', 'pay_2', '' ) as $current ) {
					foreach ( array( 'pay_2', '' ) as $booked ) {
						$state = array(
							'own'     => $own,
							'status'  => $of_order,
							'current' => $current,
							'booked'  => $booked,
							'paid'    => '' !== $booked || in_array( $of_order, array( 'processing', 'completed' ), true ),
						);
						$came  = array(
							'status'           => $status,
							'exceptions'       => $of_payment,
							'amount_received'  => in_array( 'underpaid', $of_payment, true ) ? '0.1' : '0',
							'amount_announced' => 'pending' === $status ? '0.1' : '0',
						);
						$kinds = array_column( Florin_Decisions::steps( $payment( $came ), $order( $state ) ), 0 );
						// A payment that is asked for and on its way needs no note yet.
						$waits = 'pending' === $status && 'pay_1' === $current && ! $state['paid'];
						check( json_encode( array( 'money is named', $came, $state ) ), true, $waits || array() !== array_intersect( array( 'complete', 'status', 'note' ), $kinds ) );
					}
				}
			}
		}
	}
}

// No history of one payment moves a paid order, whatever arrives in whatever order.
mt_srand( 7 );
for ( $i = 0; $i < 5000; $i++ ) {
	$state = $order( $paid );
	$steps = Florin_Decisions::steps(
		$payment(
			array(
				'id'         => mt_rand( 0, 1 ) ? 'pay_1' : 'pay_2',
				'status'     => array( 'pending', 'processing', 'expired', 'cancelled', 'failed' )[ mt_rand( 0, 4 ) ],
				'exceptions' => mt_rand( 0, 1 ) ? array( array( 'late', 'underpaid', 'replaced', 'paid_after_cancel' )[ mt_rand( 0, 3 ) ] ) : array(),
			)
		),
		$state
	);
	foreach ( $steps as $step ) {
		check( 'a paid order stays paid', true, in_array( $step[0], array( 'note', 'cancel' ), true ) );
	}
}

$key    = 'whsec_' . base64_encode( str_repeat( 'k', 32 ) );
$body   = '{"id":"evt_1","data":{}}';
$signed = static function ( $secret, $id, $at, $body ) {
	return array(
		'webhook-id'        => $id,
		'webhook-timestamp' => (string) $at,
		'webhook-signature' => 'v1,' . base64_encode( hash_hmac( 'sha256', "$id.$at.$body", base64_decode( substr( $secret, 6 ) ), true ) ),
	);
};
check( 'genuine', 'evt_1', Florin_Signature::event( array( 'whsec_other', $key ), $signed( $key, 'evt_1', 1000, $body ), $body, 1100 )['id'] );
check( 'old', null, Florin_Signature::event( array( 'whsec_other', $key ), $signed( $key, 'evt_1', 1000, $body ), $body, 1301 ) );
check( 'other body', null, Florin_Signature::event( array( 'whsec_other', $key ), $signed( $key, 'evt_1', 1000, $body ), $body . ' ', 1000 ) );
check( 'other id', null, Florin_Signature::event( array( 'whsec_other', $key ), $signed( $key, 'evt_2', 1000, $body ), $body, 1000 ) );
foreach ( array( '', 'whsec_', 'whsec_' . base64_encode( 'short' ), 'changeme' ) as $weak ) {
	check( 'secret ' . $weak, null, Florin_Signature::event( array( $weak ), $signed( $weak, 'evt_1', 1000, $body ), $body, 1000 ) );
}
check( 'no headers', null, Florin_Signature::event( array( 'whsec_other', $key ), array(), $body, 1000 ) );

foreach (
	array(
		array( 'sent', 'a1', 'Refund sent: 0.5 BTC in transaction a1. It is waiting for confirmations.' ),
		array( 'confirmed', 'a1', 'Refund confirmed: the customer received 0.5 BTC in transaction a1.' ),
		array( 'failed', 'a1', 'Refund failed: the customer was not paid 0.5 BTC by transaction a1. Open Florin to see the reason, and send the refund again or cancel it there.' ),
		array( 'failed', null, 'Refund failed: the customer was not paid 0.5 BTC. Open Florin to see the reason, and send the refund again or cancel it there.' ),
	) as list( $status, $txid, $words )
) {
	$refund = array(
		'id'               => 'ref_1',
		'payment_id'       => 'pay_1',
		'mode'             => 'live',
		'status'           => $status,
		'amount'           => '0.50000000',
		'currency'         => 'BTC',
		'transaction_hash' => $txid,
	);
	check( 'note of a refund', $words . ' <a href="/dashboard/live/payments/pay_1">Open the payment in Florin</a>', Florin_Notes::of_refund( $refund ) );
}

// Each character that does not fit as a whole is left out. A family is one character of eleven units.
$family = "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}\u{200D}\u{1F466}";
check( 'reason', str_repeat( 'x', 195 ), Florin_Refunds::reason( str_repeat( 'x', 195 ) . $family ) );
check( 'reason that fits', str_repeat( 'x', 189 ) . $family, Florin_Refunds::reason( str_repeat( 'x', 189 ) . $family . 'y' ) );
$flag = "\u{1F1EB}\u{1F1F7}";
check( 'reason that ends in a flag', str_repeat( 'x', 197 ), Florin_Refunds::reason( str_repeat( 'x', 197 ) . $flag ) );
check( 'reason that ends in an accent', str_repeat( 'x', 199 ), Florin_Refunds::reason( str_repeat( 'x', 199 ) . "e\u{0301}" ) );
check( 'reason in Cyrillic', 150, preg_match_all( '/./us', Florin_Refunds::reason( str_repeat( "\u{0416}", 150 ) ) ) );

foreach ( array( 'sk_live_0123456789abcdef' => true, 'sk_test_0123456789abcdef' => true, 'pk_live_0123456789abcdef' => false, '' => false, "sk_live_0123456789\r\nX: 1" => false ) as $text => $is ) {
	check( 'key ' . $text, $is, Florin_Connection::is_secret_key( $text ) );
}
exit( $failed > 0 ? 1 : 0 );
