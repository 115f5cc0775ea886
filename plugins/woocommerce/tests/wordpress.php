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
function remove_action( $name, $run ) {
	$GLOBALS['hooks'][ $name ] = array_filter(
		isset( $GLOBALS['hooks'][ $name ] ) ? $GLOBALS['hooks'][ $name ] : array(),
		static function ( $one ) use ( $run ) {
			return $one !== $run;
		}
	);
}
function apply_filters( $name, $value, ...$args ) {
	foreach ( isset( $GLOBALS['hooks'][ $name ] ) ? $GLOBALS['hooks'][ $name ] : array() as $run ) {
		$value = $run( $value, ...$args );
	}
	return $value;
}

/** Orders, each in a file of its own, as in rows of a table: a request reads and writes those that it names, however many there are. */
final class Stored_Orders implements ArrayAccess, Countable, IteratorAggregate, JsonSerializable {
	private $read = array();
	private $text = array();
	private function path( $id ) {
		return SHOP_FILE . '.order.' . $id;
	}
	#[ReturnTypeWillChange]
	public function &offsetGet( $id ) {
		if ( ! array_key_exists( $id, $this->read ) ) {
			$this->text[ $id ] = (string) @file_get_contents( $this->path( $id ) );
			$this->read[ $id ] = json_decode( $this->text[ $id ], true );
		}
		return $this->read[ $id ];
	}
	#[ReturnTypeWillChange]
	public function offsetExists( $id ) {
		return null !== $this->offsetGet( $id );
	}
	#[ReturnTypeWillChange]
	public function offsetSet( $id, $order ) {
		$this->offsetGet( $id );
		$this->read[ $id ] = $order;
	}
	#[ReturnTypeWillChange]
	public function offsetUnset( $id ) {
		$this->offsetSet( $id, null );
	}
	private function ids() {
		$ids = array_keys( array_filter( $this->read ) );
		foreach ( glob( $this->path( '*' ) ) as $path ) {
			$ids[] = (int) substr( strrchr( $path, '.' ), 1 );
		}
		sort( $ids );
		return array_unique( $ids );
	}
	private function all() {
		$all = array();
		foreach ( $this->ids() as $id ) {
			$all[ $id ] = $this->offsetGet( $id );
		}
		return array_filter( $all );
	}
	#[ReturnTypeWillChange]
	public function count() {
		return count( $this->ids() );
	}
	#[ReturnTypeWillChange]
	public function getIterator() {
		return new ArrayIterator( $this->all() );
	}
	#[ReturnTypeWillChange]
	public function jsonSerialize() {
		return (object) $this->all();
	}
	public function write() {
		foreach ( $this->read as $id => $order ) {
			if ( null === $order ) {
				@unlink( $this->path( $id ) );
			} elseif ( json_encode( $order ) !== $this->text[ $id ] ) {
				// Who reads without the lock finds the one or the other.
				$written = SHOP_FILE . '.writing.' . getmypid();
				file_put_contents( $written, json_encode( $order ) );
				rename( $written, $this->path( $id ) );
			}
		}
	}
}

/** Reads the shop, lets `$change` change it, and writes it, while no other process does. */
function shop( $change = null ) {
	$file = fopen( SHOP_FILE, 'c+' );
	flock( $file, null === $change ? LOCK_SH : LOCK_EX );
	$text = (string) stream_get_contents( $file );
	$all  = json_decode( $text, true ) ?: array(
		'options' => array(),
		'later'   => array(),
	);
	$orders = new Stored_Orders();
	foreach ( isset( $all['orders'] ) ? $all['orders'] : array() as $id => $order ) {
		// A copy of another shop.
		$orders[ $id ] = $order;
	}
	$all['orders'] = $orders;
	$reply         = $all;
	if ( null !== $change ) {
		$reply = $change( $all );
		$all['orders']->write();
		unset( $all['orders'] );
		if ( json_encode( $all ) !== $text ) {
			ftruncate( $file, 0 );
			rewind( $file );
			fwrite( $file, json_encode( $all ) );
		}
	}
	fclose( $file );
	return $reply;
}

function get_option( $name, $default = false ) {
	if ( 'home' === $name ) {
		return home_url();
	}
	$all = shop();
	return isset( $all['options'][ $name ] ) ? $all['options'][ $name ] : $default;
}
function update_option( $name, $value ) {
	$before = get_option( $name );
	shop(
		static function ( &$all ) use ( $name, $value ) {
			$all['options'][ $name ] = $value;
		}
	);
	if ( $before !== $value ) {
		do_action( 'update_option_' . $name, $before, $value );
	}
}
function delete_option( $name ) {
	shop(
		static function ( &$all ) use ( $name ) {
			unset( $all['options'][ $name ] );
		}
	);
}
/**
 * WordPress's cache: the memory of a request, and with SHOP_CACHE also what an object cache keeps between requests. A request that read an
 * order before another one changed it may store what it read after that, so what is kept can be old.
 */
final class Scripted_Cache {
	private static $memory = array();
	private static function path( $group, $id ) {
		return SHOP_FILE . '.cache.' . $group . '.' . $id;
	}
	public static function get( $group, $id ) {
		if ( ! isset( self::$memory[ $group ][ $id ] ) && getenv( 'SHOP_CACHE' ) ) {
			self::$memory[ $group ][ $id ] = json_decode( (string) @file_get_contents( self::path( $group, $id ) ), true );
		}
		return isset( self::$memory[ $group ][ $id ] ) ? self::$memory[ $group ][ $id ] : null;
	}
	public static function set( $group, $id, $value ) {
		self::$memory[ $group ][ $id ] = $value;
		if ( getenv( 'SHOP_CACHE' ) ) {
			$written = SHOP_FILE . '.caching.' . getmypid();
			file_put_contents( $written, json_encode( $value ) );
			rename( $written, self::path( $group, $id ) );
		}
	}
	public static function delete( $group, $id ) {
		unset( self::$memory[ $group ][ $id ] );
		@unlink( self::path( $group, $id ) );
	}
}
/** As in WooCommerce, an order that is saved or deleted is in no cache. */
function clear_order( $id ) {
	Scripted_Cache::delete( 'orders', $id );
	Scripted_Cache::delete( 'posts', $id );
}
function current_user_can() {
	return true;
}
function get_woocommerce_currency() {
	return get_option( 'woocommerce_currency', 'EUR' );
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
/** 0: nobody is signed in. */
function get_current_user_id() {
	return isset( $_GET['user'] ) ? (int) $_GET['user'] : 0;
}
function wp_kses_post( $html ) {
	return $html;
}
function wp_nonce_url( $url, $action ) {
	return $url . '&_wpnonce=' . md5( $action );
}
function check_admin_referer( $action ) {
	if ( ! isset( $_GET['_wpnonce'] ) || md5( $action ) !== $_GET['_wpnonce'] ) {
		http_response_code( 403 );
		exit;
	}
}
function wp_get_referer() {
	return false;
}
function wp_safe_redirect( $url ) {
	header( 'location: ' . $url, true, 302 );
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
	$all = shop();
	return isset( $all['home'] ) ? $all['home'] : getenv( 'SHOP_URL' );
}
function admin_url( $path = '' ) {
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
/** As in Action Scheduler: what is unique is the hook in its group, whatever its arguments. */
function as_schedule_single_action( $at, $hook, $args, $group = '', $unique = false ) {
	shop(
		static function ( &$all ) use ( $at, $hook, $args, $group, $unique ) {
			foreach ( $all['later'] as $one ) {
				if ( $unique && $one[0] === $hook && $one[2] === $group ) {
					return;
				}
			}
			$all['later'][] = array( $hook, $args, $group, $at );
		}
	);
}
function as_unschedule_action( $hook, $args, $group ) {
	shop(
		static function ( &$all ) use ( $hook, $args, $group ) {
			foreach ( $all['later'] as $index => $one ) {
				if ( array( $hook, $args, $group ) === array_slice( $one, 0, 3 ) ) {
					unset( $all['later'][ $index ] );
					break;
				}
			}
			$all['later'] = array_values( $all['later'] );
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
				'user_agent'      => $request['user-agent'],
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
	private $before;
	public function __construct( array $data ) {
		$this->data   = $data;
		$this->before = $data;
	}
	public function get_id() {
		return $this->data['id'];
	}
	public function get_order_key() {
		return isset( $this->data['key'] ) ? $this->data['key'] : 'wc_order_' . md5( SHOP_FILE . $this->data['id'] );
	}
	public function get_order_number() {
		return (string) $this->data['id'];
	}
	/** As in WooCommerce, 0 for a guest. */
	public function get_customer_id() {
		return isset( $this->data['customer'] ) ? $this->data['customer'] : 0;
	}
	public function get_billing_email() {
		return isset( $this->data['email'] ) ? $this->data['email'] : '';
	}
	public function get_billing_first_name() {
		return isset( $this->data['first_name'] ) ? $this->data['first_name'] : '';
	}
	public function get_billing_last_name() {
		return isset( $this->data['last_name'] ) ? $this->data['last_name'] : '';
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
		$orders = shop()['orders'];
		return array_map(
			static function ( $id ) {
				return new WC_Order_Refund( $id );
			},
			isset( $orders[ $this->get_id() ]['refunds'] ) ? $orders[ $this->get_id() ]['refunds'] : array()
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
				if ( isset( $all['orders'][ $id ] ) ) {
					$all['orders'][ $id ]['notes'][] = $note;
				}
			}
		);
		if ( $for_customer ) {
			do_action(
				'woocommerce_new_customer_note',
				array(
					'order_id'      => $id,
					'customer_note' => $text,
				)
			);
		}
	}
	/** As in WooCommerce, a change to the same status is none, and its note is dropped. */
	public function update_status( $status, $note = '' ) {
		$from = $this->data['status'];
		if ( $from === $status ) {
			return;
		}
		$this->data['status'] = $status;
		// As maybe_set_date_paid() does it.
		if ( 'processing' === $status && null === $this->data['paid_at'] ) {
			$this->data['paid_at'] = time();
		}
		$this->save();
		$this->add_order_note( trim( $note ) );
		do_action( 'woocommerce_order_status_' . $status, $this->get_id() );
		do_action( 'woocommerce_order_status_changed', $this->get_id(), $from, $status, $this );
	}
	/** As in WooCommerce: into the trash, or for good. */
	public function delete( $force = false ) {
		$id = $this->get_id();
		if ( $force ) {
			do_action( 'woocommerce_before_delete_order', $id, $this );
			shop(
				static function ( &$all ) use ( $id ) {
					if ( isset( $all['orders'][ $id ] ) ) {
						$all['deleted'][ $id ] = $all['orders'][ $id ];
						unset( $all['orders'][ $id ] );
					}
				}
			);
		} else {
			$this->data['status'] = 'trash';
			$this->save();
			do_action( 'woocommerce_trash_order', $id );
		}
		clear_order( $id );
	}
	/** Data of an order is read with it, from the same memory. */
	public function read_meta_data( $force ) {
		// Read once: another request may delete the order in between.
		$orders             = shop()['orders'];
		$this->data['meta'] = isset( $orders[ $this->data['id'] ] ) ? $orders[ $this->data['id'] ]['meta'] : array();
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
			// The hooks of other plugins run in this case too: they deliver licenses and send mails.
			$this->data['late_hooks'] = ( isset( $this->data['late_hooks'] ) ? $this->data['late_hooks'] : 0 ) + 1;
			$this->save();
			return true;
		}
		$from = $this->data['status'];
		$this->data['paid_at']     = time();
		$this->data['status']      = 'processing';
		$this->data['transaction'] = $transaction;
		shop(
			function ( &$all ) {
				if ( ! isset( $all['orders'][ $this->data['id'] ] ) ) {
					return;
				}
				$order                     = &$all['orders'][ $this->data['id'] ];
				$order['completions']      = ( isset( $order['completions'] ) ? $order['completions'] : 0 ) + 1;
				$this->data['completions'] = $order['completions'];
				$order['completed_for']    = $this->data['total'];
			}
		);
		$this->save();
		do_action( 'woocommerce_order_status_processing', $this->get_id() );
		do_action( 'woocommerce_order_status_changed', $this->get_id(), $from, 'processing', $this );
		return true;
	}
	/** As in WooCommerce, only what was changed is written, and the memory of the request is cleared. */
	public function save() {
		$data   = $this->data;
		$before = $this->before;
		$home   = $before['status'] === $data['status'] ? '' : home_url();
		shop(
			static function ( &$all ) use ( $data, $before, $home ) {
				if ( ! isset( $all['orders'][ $data['id'] ] ) ) {
					// Deleted meanwhile.
					return;
				}
				$stored = &$all['orders'][ $data['id'] ];
				if ( $before['status'] !== $data['status'] ) {
					$stored['history'][] = array( $before['status'], $data['status'], isset( $GLOBALS['by'] ) ? $GLOBALS['by'] : '', $home );
				}
				foreach ( array( 'status', 'paid_at', 'transaction', 'broken', 'late_hooks' ) as $name ) {
					if ( isset( $data[ $name ] ) && ( ! isset( $before[ $name ] ) || $before[ $name ] !== $data[ $name ] ) ) {
						$stored[ $name ] = $data[ $name ];
					}
				}
				foreach ( $data['meta'] + $before['meta'] as $name => $ignored ) {
					if ( ! isset( $data['meta'][ $name ] ) ) {
						unset( $stored['meta'][ $name ] );
					} elseif ( ! isset( $before['meta'][ $name ] ) || $before['meta'][ $name ] !== $data['meta'][ $name ] ) {
						$stored['meta'][ $name ] = $data['meta'][ $name ];
					}
				}
			}
		);
		$this->before = $data;
		clear_order( $data['id'] );
	}
}
/** As in WooCommerce: the goods of an order are taken from the stock, and put back, once each. Those of a failed order stay where they are. */
function move_stock( $id, $taken ) {
	shop(
		static function ( &$all ) use ( $id, $taken ) {
			if ( isset( $all['orders'][ $id ] ) && ! empty( $all['orders'][ $id ]['stock_taken'] ) !== $taken ) {
				$all['orders'][ $id ]['stock_taken'] = $taken;
				$all['orders'][ $id ]['stock'][]     = $taken ? -1 : 1;
			}
		}
	);
}
function wc_maybe_reduce_stock_levels( $id ) {
	move_stock( $id, true );
}
function wc_maybe_increase_stock_levels( $id ) {
	move_stock( $id, false );
}
foreach ( array( 'on-hold', 'processing', 'completed' ) as $status ) {
	add_action( 'woocommerce_order_status_' . $status, 'wc_maybe_reduce_stock_levels' );
}
foreach ( array( 'pending', 'cancelled' ) as $status ) {
	add_action( 'woocommerce_order_status_' . $status, 'wc_maybe_increase_stock_levels' );
}

/**
 * As in WooCommerce, an order is answered from the memory of the request: from the cache of orders (orders in tables of their own), or from the
 * posts that were read (orders in posts). Whoever needs what is stored has to clear both.
 */
function absint( $value ) {
	return abs( (int) $value );
}
function get_query_var( $name ) {
	return isset( $GLOBALS['query'][ $name ] ) ? $GLOBALS['query'][ $name ] : '';
}
/** As WC_Email_Customer_Note does it: whatever a note says goes to the billing address. */
add_action(
	'woocommerce_new_customer_note',
	static function ( $args ) {
		shop(
			static function ( &$all ) use ( $args ) {
				if ( isset( $all['orders'][ $args['order_id'] ] ) ) {
					$all['orders'][ $args['order_id'] ]['mails'][] = $args['customer_note'];
				}
			}
		);
	}
);
function wc_get_order( $id ) {
	foreach ( array( 'orders', 'posts' ) as $group ) {
		$cached = Scripted_Cache::get( $group, $id );
		if ( null !== $cached ) {
			return new WC_Order( $cached );
		}
	}
	$all = shop();
	if ( ! isset( $all['orders'][ $id ] ) ) {
		return false;
	}
	Scripted_Cache::set( 'orders', $id, $all['orders'][ $id ] );
	Scripted_Cache::set( 'posts', $id, $all['orders'][ $id ] );
	return new WC_Order( $all['orders'][ $id ] );
}
function wp_cache_delete( $id, $group ) {
	Scripted_Cache::delete( $group, $id );
}
function wc_get_orders( $which ) {
	$found = array();
	foreach ( shop()['orders'] as $order ) {
		if ( $order['method'] === $which['payment_method'] && in_array( $order['status'], $which['status'], true ) ) {
			$found[] = $order['id'];
		}
	}
	return $found;
}
function wc_get_container() {
	return new class() {
		public function get( $name ) {
			return new $name();
		}
	};
}
/** The cache of orders. */
final class Scripted_Order_Cache {
	public function remove( $id ) {
		Scripted_Cache::delete( 'orders', $id );
	}
}
class_alias( 'Scripted_Order_Cache', 'Automattic\\WooCommerce\\Caches\\OrderCache' );
final class WC_Data_Store {
	public static function load( $name ) {
		return new self();
	}
	public function __call( $name, $arguments ) {
		return null;
	}
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
