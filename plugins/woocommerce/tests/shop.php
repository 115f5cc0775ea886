<?php
/**
 * A shop with the plugin, for PHP's own server: settings, orders, checkout, and the webhook.
 *
 * @package Florin
 */

require __DIR__ . '/wordpress.php';

/** @return array The JSON of the request. */
function sent() {
	return json_decode( (string) file_get_contents( 'php://input' ), true ) ?: array();
}
function reply( $value ) {
	header( 'content-type: application/json' );
	echo json_encode( $value );
	exit;
}

/** @return int The ID of a new refund of an order. */
function refund_of( $id ) {
	return shop(
		static function ( &$all ) use ( $id ) {
			$all['last_refund']               = ( isset( $all['last_refund'] ) ? $all['last_refund'] : 9000 ) + 1;
			if ( isset( $all['orders'][ $id ] ) ) {
				$all['orders'][ $id ]['refunds'][] = $all['last_refund'];
			}
			return $all['last_refund'];
		}
	);
}
function delete_refund( $id, $refund ) {
	shop(
		static function ( &$all ) use ( $id, $refund ) {
			if ( isset( $all['orders'][ $id ]['refunds'] ) ) {
				$all['orders'][ $id ]['refunds'] = array_values( array_diff( $all['orders'][ $id ]['refunds'], array( $refund ) ) );
			}
		}
	);
}

$path = parse_url( $_SERVER['REQUEST_URI'], PHP_URL_PATH );
if ( isset( $_GET['wc-api'] ) ) {
	do_action( 'woocommerce_api_' . $_GET['wc-api'] );
}
$classes = apply_filters( 'woocommerce_payment_gateways', array() );
if ( '/settings' === $path ) {
	$GLOBALS['form'] = 'POST' === $_SERVER['REQUEST_METHOD'] ? sent() : get_option( Florin_Connection::SETTINGS, array() );
	$gateway         = new $classes[0]();
	do_action( 'woocommerce_update_options_payment_gateways_florin' );
	if ( 'GET' === $_SERVER['REQUEST_METHOD'] ) {
		require __DIR__ . '/settings.php';
		exit;
	}
	reply(
		array(
			'messages'    => WC_Admin_Settings::$messages,
			'available'   => ( new $classes[0]() )->is_available(),
			'description' => ( new $classes[0]() )->description,
			'method'      => ( new $classes[0]() )->method_description,
		)
	);
}
if ( '/options' === $path ) {
	foreach ( sent() as $name => $value ) {
		update_option( $name, $value );
	}
	reply( shop() );
}
if ( '/restore' === $path ) {
	// The whole database is that of a backup, or of another shop.
	shop(
		static function ( &$all ) {
			$stored = $all['orders'];
			foreach ( $stored as $id => $order ) {
				unset( $stored[ $id ] );
				clear_order( $id );
			}
			$given = sent();
			foreach ( $given['orders'] as $id => $order ) {
				$stored[ $id ] = $order;
			}
			$all = array( 'orders' => $stored ) + $given;
		}
	);
	reply( array() );
}
if ( '/home' === $path ) {
	shop(
		static function ( &$all ) {
			$all['home'] = sent()['home'];
		}
	);
	reply( array() );
}
if ( '/later' === $path ) {
	$later = shop(
		static function ( &$all ) {
			$due          = $all['later'];
			$all['later'] = array();
			return $due;
		}
	);
	foreach ( $later as $one ) {
		do_action( $one[0], ...$one[1] );
	}
	reply( array( 'ran' => $later ) );
}
if ( '/notices' === $path ) {
	do_action( 'admin_notices' );
	exit;
}
if ( '/wp-admin/admin-post.php' === $path ) {
	do_action( 'admin_post_' . $_GET['action'] );
}
$gateway = new $classes[0]();
if ( '/orders' === $path ) {
	$id = shop(
		static function ( &$all ) {
			$id                   = count( $all['orders'] ) + ( isset( $all['deleted'] ) ? count( $all['deleted'] ) : 0 ) + 101;
			$all['orders'][ $id ] = array_merge(
				array(
					'id'       => $id,
					'status'   => 'pending',
					'method'   => 'florin',
					'currency' => 'EUR',
					'paid_at'  => null,
					'meta'     => array(),
					'notes'    => array(),
				),
				sent()
			);
			return $id;
		}
	);
	reply( array( 'id' => $id ) );
}
if ( preg_match( '#^/orders/(\d+)(?:/(\w+))?$#', $path, $parts ) ) {
	$id    = (int) $parts[1];
	$order = wc_get_order( $id );
	if ( ! $order ) {
		reply( array( 'status' => 'deleted' ) );
	}
	switch ( isset( $parts[2] ) ? $parts[2] : '' ) {
		case 'button':
			// WooCommerce shows the button only while the order needs a payment.
			if ( ! in_array( $order->get_status(), array( 'pending', 'failed' ), true ) ) {
				reply( array() );
			}
			// And then as at the checkout.
		case 'pay':
			$GLOBALS['notices'] = array();
			reply( $gateway->process_payment( $id ) + array( 'notices' => $GLOBALS['notices'] ) );
			break;
		case 'offered':
			// On the page where an order is paid.
			$GLOBALS['query'] = array( 'order-pay' => (string) $id );
			reply( array( 'available' => $gateway->is_available() ) );
			break;
		case 'thanks':
			$gateway->show_state( $id );
			exit;
		case 'view':
			// As myaccount/view-order.php does it for the customer, and order/tracking.php for everyone who knows the number and the email address.
			foreach ( shop()['orders'][ $id ]['notes'] as $note ) {
				echo $note['customer'] ? wp_kses_post( '<li>' . $note['text'] . '</li>' ) : '';
			}
			do_action( 'woocommerce_view_order', $id );
			exit;
		case 'stock':
			// As wc_cancel_unpaid_orders() does it.
			if ( 'pending' === $order->get_status() && apply_filters( 'woocommerce_cancel_unpaid_order', true, $order ) ) {
				$GLOBALS['by'] = 'stock';
				$order->update_status( 'cancelled', 'Unpaid order cancelled - time limit reached.' );
			}
			reply( array() );
			break;
		case 'trash':
		case 'delete':
			$order->delete( 'delete' === $parts[2] );
			reply( array() );
			break;
		case 'vanish':
			// What is left of a deletion, by another request, whose hooks ran before.
			shop(
				static function ( &$all ) use ( $id ) {
					if ( isset( $all['orders'][ $id ] ) ) {
						$all['deleted'][ $id ] = $all['orders'][ $id ];
						unset( $all['orders'][ $id ] );
					}
				}
			);
			clear_order( $id );
			reply( array() );
			break;
		case 'edit':
			shop(
				static function ( &$all ) use ( $id ) {
					if ( isset( $all['orders'][ $id ] ) ) {
						$all['orders'][ $id ] = sent() + $all['orders'][ $id ];
					}
				}
			);
			clear_order( $id );
			reply( array() );
			break;
		case 'status':
			$GLOBALS['by'] = 'hand';
			$order->update_status( sent()['status'], 'By hand.' );
			reply( array() );
			break;
		case 'refund':
			// As WooCommerce does it: its refund exists first, and is deleted if the gateway refuses.
			$made     = isset( sent()['again'] ) ? (int) sent()['again'] : refund_of( $id );
			$refunded = $gateway->process_refund( $id, sent()['amount'], isset( sent()['reason'] ) ? sent()['reason'] : 'Broken' );
			if ( is_wp_error( $refunded ) ) {
				delete_refund( $id, $made );
				reply( array( 'refused' => $refunded->get_error_message() ) );
			}
			reply(
				array(
					'refunded' => $refunded,
					'refund'   => $made,
				)
			);
			break;
		case 'unrefund':
			delete_refund( $id, (int) sent()['refund'] );
			reply( array() );
			break;
		case 'check':
			do_action( Florin_Orders::CHECK_HOOK, $id );
			break;
	}
	$orders = shop()['orders'];
	reply( isset( $orders[ $id ] ) ? $orders[ $id ] : array( 'status' => 'deleted' ) );
}
http_response_code( 404 );
