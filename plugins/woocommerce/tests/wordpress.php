<?php
/**
 * The parts of WordPress and WooCommerce that the plugin uses, over one JSON file: as much as a test needs to see what the plugin does to
 * orders. Requests to the Florin server are real.
 *
 * @package Florin
 */

define( 'ABSPATH', __DIR__ . '/' );
define( 'SHOP_FILE', getenv( 'SHOP_FILE' ) );

$GLOBALS['hooks'] = array();

function add_action( $name, $run ) {
	$GLOBALS['hooks'][ $name ][] = $run;
}
function add_filter( $name, $run ) {
	add_action( $name, $run );
}
function do_action( $name, ...$args ) {
	foreach ( isset( $GLOBALS['hooks'][ $name ] ) ? $GLOBALS['hooks'][ $name ] : array() as $run ) {
		$run( ...$args );
	}
}
function apply_filters( $name, $value ) {
	foreach ( isset( $GLOBALS['hooks'][ $name ] ) ? $GLOBALS['hooks'][ $name ] : array() as $run ) {
		$value = $run( $value );
	}
	return $value;
}

/** Reads the file, lets `$change` change it, and writes it, while no other process does. */
function shop( $change = null ) {
	$file = fopen( SHOP_FILE, 'c+' );
	flock( $file, null === $change ? LOCK_SH : LOCK_EX );
	$all = json_decode( (string) stream_get_contents( $file ), true ) ?: array(
		'options' => array(),
		'orders'  => array(),
		'later'   => array(),
	);
	$reply = $all;
	if ( null !== $change ) {
		$reply = $change( $all );
		ftruncate( $file, 0 );
		rewind( $file );
		fwrite( $file, json_encode( $all ) );
	}
	fclose( $file );
	return $reply;
}

function get_option( $name, $default = false ) {
	$all = shop();
	return isset( $all['options'][ $name ] ) ? $all['options'][ $name ] : $default;
}
function update_option( $name, $value ) {
	shop(
		static function ( &$all ) use ( $name, $value ) {
			$all['options'][ $name ] = $value;
		}
	);
}
function __( $text ) {
	return $text;
}
function esc_html( $text ) {
	return htmlspecialchars( $text );
}
function esc_html__( $text ) {
	return htmlspecialchars( $text );
}
function esc_url( $url ) {
	return htmlspecialchars( $url );
}
function sanitize_text_field( $text ) {
	return trim( $text );
}
function wp_unslash( $text ) {
	return $text;
}
function wp_json_encode( $value ) {
	return json_encode( $value );
}
function home_url() {
	return getenv( 'SHOP_URL' );
}
function admin_url( $path ) {
	return home_url() . '/wp-admin/' . $path;
}
function plugin_basename( $file ) {
	return 'florin-payments/' . basename( $file );
}
function load_plugin_textdomain() {
}
function status_header( $status ) {
	http_response_code( $status );
}
function wc_add_notice( $text ) {
	$GLOBALS['notices'][] = $text;
}
function as_schedule_single_action( $at, $hook, $args ) {
	shop(
		static function ( &$all ) use ( $hook, $args ) {
			$all['later'][ $hook . ':' . $args[0] ] = array( $hook, $args );
		}
	);
}

final class WP_Error {
	private $message;
	public function __construct( $code, $message ) {
		$this->message = $message;
	}
	public function get_error_message() {
		return $this->message;
	}
}
function is_wp_error( $value ) {
	return $value instanceof WP_Error;
}
function wp_remote_request( $url, $request ) {
	$lines = array();
	foreach ( $request['headers'] as $name => $value ) {
		$lines[] = $name . ': ' . $value;
	}
	$context = stream_context_create(
		array(
			'http' => array(
				'method'          => $request['method'],
				'header'          => $lines,
				'content'         => isset( $request['body'] ) ? $request['body'] : '',
				'timeout'         => $request['timeout'],
				'follow_location' => 0,
				'ignore_errors'   => true,
			),
		)
	);
	$body = @file_get_contents( $url, false, $context );
	if ( false === $body ) {
		return new WP_Error( 'http_request_failed', 'The server cannot be reached.' );
	}
	preg_match( '/ (\d{3})/', $http_response_header[0], $status );
	return array(
		'status' => (int) $status[1],
		'body'   => $body,
	);
}
function wp_remote_retrieve_response_code( $reply ) {
	return $reply['status'];
}
function wp_remote_retrieve_body( $reply ) {
	return $reply['body'];
}

/** Named locks, as MySQL has them. */
final class Scripted_Database {
	private $held = array();
	public function prepare( $statement, $name ) {
		return array( $statement, $name );
	}
	public function get_var( $prepared ) {
		list( $statement, $name ) = $prepared;
		if ( false !== strpos( $statement, 'GET_LOCK' ) ) {
			$this->held[ $name ] = fopen( SHOP_FILE . '.' . $name, 'c' );
			flock( $this->held[ $name ], LOCK_EX );
		} else {
			fclose( $this->held[ $name ] );
		}
		return '1';
	}
}
$GLOBALS['wpdb'] = new Scripted_Database();

final class WC_Order_Refund {
	private $id;
	public function __construct( $id ) {
		$this->id = $id;
	}
	public function get_id() {
		return $this->id;
	}
}
/** An order. As in WooCommerce, changes of its data are written by save(), and notes at once. */
final class WC_Order {
	private $data;
	public function __construct( array $data ) {
		$this->data = $data;
	}
	public function get_id() {
		return $this->data['id'];
	}
	public function get_order_number() {
		return (string) $this->data['id'];
	}
	public function get_total() {
		return $this->data['total'];
	}
	public function get_currency() {
		return $this->data['currency'];
	}
	public function get_status() {
		return $this->data['status'];
	}
	public function has_status( $status ) {
		return $this->data['status'] === $status;
	}
	public function get_payment_method() {
		return $this->data['method'];
	}
	public function is_paid() {
		return in_array( $this->data['status'], array( 'processing', 'completed' ), true );
	}
	public function get_date_paid() {
		return $this->data['paid_at'];
	}
	public function get_refunds() {
		return array_map(
			static function ( $id ) {
				return new WC_Order_Refund( $id );
			},
			isset( $this->data['refunds'] ) ? $this->data['refunds'] : array()
		);
	}
	public function get_meta( $name ) {
		return isset( $this->data['meta'][ $name ] ) ? $this->data['meta'][ $name ] : '';
	}
	public function update_meta_data( $name, $value ) {
		$this->data['meta'][ $name ] = $value;
	}
	public function delete_meta_data( $name ) {
		unset( $this->data['meta'][ $name ] );
	}
	public function add_order_note( $text, $for_customer = 0 ) {
		$note = array(
			'text'     => $text,
			'customer' => (bool) $for_customer,
		);
		$this->data['notes'][] = $note;
		$id                    = $this->get_id();
		shop(
			static function ( &$all ) use ( $id, $note ) {
				$all['orders'][ $id ]['notes'][] = $note;
			}
		);
	}
	public function update_status( $status, $note ) {
		$this->data['status'] = $status;
		$this->save();
		$this->add_order_note( trim( $note ) );
		do_action( 'woocommerce_order_status_' . $status, $this->get_id() );
	}
	/** As in WooCommerce, an error in a hook of another plugin makes it false, and the order stays as it is. */
	public function payment_complete( $transaction ) {
		$broken = isset( $this->data['broken'] ) ? $this->data['broken'] : 0;
		if ( $broken > 0 ) {
			$this->data['broken'] = $broken - 1;
			$this->save();
			return false;
		}
		if ( ! in_array( $this->data['status'], array( 'on-hold', 'pending', 'failed', 'cancelled' ), true ) ) {
			return true;
		}
		$this->data['paid_at']     = time();
		$this->data['status']      = 'processing';
		$this->data['transaction'] = $transaction;
		$this->data['completions'] = ( isset( $this->data['completions'] ) ? $this->data['completions'] : 0 ) + 1;
		$this->save();
		return true;
	}
	public function save() {
		$data = $this->data;
		shop(
			static function ( &$all ) use ( $data ) {
				// Notes and refunds are stored by themselves.
				$own = array_intersect_key( $all['orders'][ $data['id'] ], array( 'notes' => true, 'refunds' => true ) );
				$all['orders'][ $data['id'] ] = $own + $data;
			}
		);
	}
}
function wc_get_order( $id ) {
	$all = shop();
	return isset( $all['orders'][ $id ] ) ? new WC_Order( $all['orders'][ $id ] ) : false;
}
function wc_get_logger() {
	return new class() {
		public function warning( $text ) {
			error_log( $text );
		}
		public function error( $text ) {
			error_log( $text );
		}
	};
}
function WC() {
	return new class() {
		public function api_request_url( $name ) {
			return home_url() . '/?wc-api=' . $name;
		}
	};
}
final class WC_Admin_Settings {
	public static $messages = array();
	public static function add_error( $text ) {
		self::$messages[] = array( 'error', $text );
	}
	public static function add_message( $text ) {
		self::$messages[] = array( 'message', $text );
	}
}
abstract class WC_Payment_Gateway {
	public $id;
	public $title;
	public $description;
	public $method_title;
	public $method_description;
	public $has_fields;
	public $supports;
	public $form_fields = array();
	public function init_settings() {
	}
	public function get_option( $name ) {
		$settings = get_option( 'woocommerce_florin_settings', array() );
		return isset( $settings[ $name ] ) ? $settings[ $name ] : $this->form_fields[ $name ]['default'];
	}
	/** Stores what the form of the settings sent. */
	public function process_admin_options() {
		update_option( 'woocommerce_florin_settings', $GLOBALS['form'] );
	}
	public function is_available() {
		return 'yes' === $this->get_option( 'enabled' );
	}
	public function get_return_url( $order ) {
		return home_url() . '/checkout/order-received/' . $order->get_id() . '/';
	}
}

require __DIR__ . '/../florin-payments.php';
do_action( 'before_woocommerce_init' );
do_action( 'plugins_loaded' );
do_action( 'init' );
