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
check( 'same', true, Florin_Amounts::same( '10', '10.00' ) );
check( 'not same', false, Florin_Amounts::same( '10', '10.01' ) );
check( 'nothing is never the same', false, Florin_Amounts::same( 'x', 'x' ) );

$payment = static function ( array $more ) {
	return $more + array(
		'id'              => 'pay_1',
		'status'          => 'pending',
		'exceptions'      => array(),
		'amount_usd'      => '11.00',
		'amount_fiat'     => '10.00',
		'currency_fiat'   => 'EUR',
		'amount_received' => '0',
	);
};
$order = static function ( array $more ) {
	return $more + array(
		'status'   => 'pending',
		'paid'     => false,
		'total'    => '10',
		'currency' => 'EUR',
		'current'  => 'pay_1',
		'booked'   => '',
		'reversed' => false,
	);
};
$paid = array( 'status' => 'processing', 'paid' => true, 'booked' => 'pay_1' );
foreach (
	array(
		array( 'nothing yet', array(), array(), array() ),
		array( 'seen', array( 'status' => 'processing' ), array(), array( array( 'status', 'on-hold', 'processing' ) ) ),
		array( 'seen twice', array( 'status' => 'processing' ), array( 'status' => 'on-hold' ), array() ),
		array( 'seen, told after it was paid', array( 'status' => 'processing' ), $paid, array() ),
		array( 'seen, shipped', array( 'status' => 'processing' ), array( 'status' => 'completed' ) + $paid, array() ),
		array( 'confirmed', array( 'status' => 'completed' ), array(), array( array( 'complete' ) ) ),
		array( 'confirmed after on-hold', array( 'status' => 'completed' ), array( 'status' => 'on-hold' ), array( array( 'complete' ) ) ),
		array( 'confirmed twice', array( 'status' => 'completed' ), $paid, array() ),
		array( 'confirmed after a cancel', array( 'status' => 'completed' ), array( 'status' => 'cancelled', 'current' => '' ), array( array( 'complete' ) ) ),
		array( 'a second payment', array( 'id' => 'pay_2', 'status' => 'completed' ), $paid, array( array( 'note', 'second' ) ) ),
		array( 'a second payment on its way', array( 'id' => 'pay_2', 'status' => 'processing' ), $paid, array( array( 'note', 'second' ) ) ),
		array( 'paid by hand', array( 'status' => 'completed' ), array( 'booked' => '' ) + $paid, array( array( 'note', 'second' ) ) ),
		array( 'another total', array( 'status' => 'completed' ), array( 'total' => '12.00' ), array( array( 'status', 'on-hold', 'other_total' ) ) ),
		array( 'another currency', array( 'status' => 'completed' ), array( 'currency' => 'USD' ), array( array( 'status', 'on-hold', 'other_total' ) ) ),
		array( 'confirmed, but completing the order failed', array( 'status' => 'completed' ), array( 'booked' => 'pay_1' ), array( array( 'complete' ) ) ),
		array( 'overpaid', array( 'status' => 'completed', 'exceptions' => array( 'overpaid' ) ), array(), array( array( 'complete' ), array( 'note', 'overpaid' ) ) ),
		array( 'expired', array( 'status' => 'expired' ), array(), array( array( 'status', 'failed', 'expired' ) ) ),
		array( 'an old payment expired', array( 'status' => 'expired' ), array( 'current' => 'pay_2' ), array() ),
		array( 'expired, paid otherwise', array( 'status' => 'expired' ), $paid, array() ),
		array( 'too little', array( 'status' => 'failed', 'amount_received' => '0.1', 'exceptions' => array( 'underpaid' ) ), array(), array( array( 'status', 'on-hold', 'underpaid' ) ) ),
		array( 'double spend', array( 'status' => 'failed' ), array( 'status' => 'on-hold' ), array( array( 'status', 'failed', 'failed' ) ) ),
		array( 'late', array( 'status' => 'expired', 'exceptions' => array( 'late' ) ), array( 'status' => 'cancelled' ), array( array( 'note', 'late' ) ) ),
		array( 'late for a paid order', array( 'status' => 'expired', 'exceptions' => array( 'late' ) ), $paid, array( array( 'note', 'late' ) ) ),
		array( 'reversed', array( 'status' => 'completed', 'exceptions' => array( 'reorged' ) ), $paid, array( array( 'status', 'on-hold', 'reorged' ) ) ),
		array( 'reversed, shipped', array( 'status' => 'completed', 'exceptions' => array( 'reorged' ) ), array( 'status' => 'completed' ) + $paid, array( array( 'note', 'reorged' ) ) ),
		array( 'restored', array( 'status' => 'completed' ), array( 'status' => 'on-hold', 'reversed' => true ) + $paid, array( array( 'status', 'processing', 'restored' ) ) ),
		array( 'a part', array( 'exceptions' => array( 'underpaid' ) ), array(), array( array( 'note', 'partial' ) ) ),
		array( 'replaced', array( 'exceptions' => array( 'replaced' ) ), array( 'status' => 'on-hold' ), array( array( 'status', 'pending', 'replaced' ) ) ),
		array( 'canceled', array( 'status' => 'cancelled' ), array(), array( array( 'status', 'cancelled', 'cancelled' ) ) ),
	) as list( $name, $of_payment, $of_order, $steps )
) {
	check( $name, $steps, Florin_Decisions::steps( $payment( $of_payment ), $order( $of_order ) ) );
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
		check( 'a paid order stays paid', 'note', $step[0] );
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
check( 'genuine', 'evt_1', Florin_Signature::event( $key, $signed( $key, 'evt_1', 1000, $body ), $body, 1100 )['id'] );
check( 'old', null, Florin_Signature::event( $key, $signed( $key, 'evt_1', 1000, $body ), $body, 1301 ) );
check( 'other body', null, Florin_Signature::event( $key, $signed( $key, 'evt_1', 1000, $body ), $body . ' ', 1000 ) );
check( 'other id', null, Florin_Signature::event( $key, $signed( $key, 'evt_2', 1000, $body ), $body, 1000 ) );
foreach ( array( '', 'whsec_', 'whsec_' . base64_encode( 'short' ), 'changeme' ) as $weak ) {
	check( 'secret ' . $weak, null, Florin_Signature::event( $weak, $signed( $weak, 'evt_1', 1000, $body ), $body, 1000 ) );
}
check( 'no headers', null, Florin_Signature::event( $key, array(), $body, 1000 ) );

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
	check( 'note of a refund', $words . ' /dashboard/payments/pay_1', Florin_Notes::of_refund( $refund ) );
}

foreach ( array( 'sk_live_0123456789abcdef' => true, 'sk_test_0123456789abcdef' => true, 'pk_live_0123456789abcdef' => false, '' => false, "sk_live_0123456789\r\nX: 1" => false ) as $text => $is ) {
	check( 'key ' . $text, $is, Florin_Connection::is_secret_key( $text ) );
}
exit( $failed > 0 ? 1 : 0 );
