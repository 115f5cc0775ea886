<?php
/**
 * Plugin Name: Florin Payments for WooCommerce
 * Description: Accept Bitcoin, Ethereum, Litecoin, Dash, Dogecoin and stablecoins with your own Florin server.
 * Version: 1.0.0-rc.1
 * Requires at least: 6.5
 * Requires PHP: 7.4
 * Requires Plugins: woocommerce
 * WC requires at least: 8.2
 * WC tested up to: 11.0
 * License: MIT
 * License URI: https://opensource.org/license/mit
 * Text Domain: florin-payments
 * Domain Path: /languages
 *
 * @package Florin
 */

defined( 'ABSPATH' ) || exit;

define( 'FLORIN_PAYMENTS_VERSION', '1.0.0-rc.1' );
define( 'FLORIN_PAYMENTS_FILE', __FILE__ );

foreach ( array( 'amounts', 'client', 'signature', 'decisions', 'notes', 'unplaced', 'orders', 'refunds', 'connection', 'webhook' ) as $florin_part ) {
	require_once __DIR__ . '/includes/class-florin-' . $florin_part . '.php';
}

add_action(
	'init',
	static function () {
		load_plugin_textdomain( 'florin-payments', false, dirname( plugin_basename( __FILE__ ) ) . '/languages' );
	}
);

// Both declarations are facts: orders are read and written through WooCommerce's own functions, and the checkout block has its own part.
add_action(
	'before_woocommerce_init',
	static function () {
		if ( class_exists( '\Automattic\WooCommerce\Utilities\FeaturesUtil' ) ) {
			\Automattic\WooCommerce\Utilities\FeaturesUtil::declare_compatibility( 'custom_order_tables', __FILE__, true );
			\Automattic\WooCommerce\Utilities\FeaturesUtil::declare_compatibility( 'cart_checkout_blocks', __FILE__, true );
		}
	}
);

add_action(
	'plugins_loaded',
	static function () {
		if ( ! class_exists( 'WC_Payment_Gateway' ) ) {
			return;
		}
		require_once __DIR__ . '/includes/class-florin-gateway.php';
		add_filter(
			'woocommerce_payment_gateways',
			static function ( $gateways ) {
				$gateways[] = 'Florin_Gateway';
				return $gateways;
			}
		);
		add_action( 'woocommerce_api_florin', array( 'Florin_Webhook', 'receive' ) );
		add_action( 'woocommerce_order_status_changed', array( 'Florin_Orders', 'status_changed' ), 10, 3 );
		// Orders in tables of their own, and orders in posts, which WordPress itself also moves and deletes.
		foreach ( array( 'woocommerce_trash_order', 'trashed_post' ) as $hook ) {
			add_action( $hook, array( 'Florin_Orders', 'trashed' ) );
		}
		foreach ( array( 'woocommerce_before_delete_order', 'before_delete_post' ) as $hook ) {
			add_action( $hook, array( 'Florin_Orders', 'deleted' ) );
		}
		// Above the table of the order.
		add_action( 'woocommerce_view_order', array( 'Florin_Refunds', 'show_links' ), 5 );
		add_filter( 'woocommerce_cancel_unpaid_order', array( 'Florin_Orders', 'may_cancel' ), 10, 2 );
		add_action( 'update_option_' . Florin_Connection::SETTINGS, array( 'Florin_Connection', 'settings_changed' ), 10, 2 );
		add_action( 'admin_notices', array( 'Florin_Connection', 'show_problem' ) );
		add_action( 'admin_notices', array( 'Florin_Unplaced', 'show' ) );
		add_action( 'admin_post_' . Florin_Unplaced::SEEN, array( 'Florin_Unplaced', 'dismiss' ) );
		add_action( Florin_Unplaced::LOOK_HOOK, array( 'Florin_Unplaced', 'look_at_page' ), 10, 3 );
		add_action( Florin_Connection::CHECK_HOOK, array( 'Florin_Connection', 'check' ) );
		add_action( Florin_Orders::CHECK_HOOK, array( 'Florin_Orders', 'check' ) );
	}
);

add_action(
	'woocommerce_blocks_loaded',
	static function () {
		if ( ! class_exists( '\Automattic\WooCommerce\Blocks\Payments\Integrations\AbstractPaymentMethodType' ) ) {
			return;
		}
		require_once __DIR__ . '/includes/class-florin-blocks.php';
		add_action(
			'woocommerce_blocks_payment_method_type_registration',
			static function ( $registry ) {
				$registry->register( new Florin_Blocks() );
			}
		);
	}
);

add_filter(
	'plugin_action_links_' . plugin_basename( __FILE__ ),
	static function ( $links ) {
		$url = Florin_Connection::settings_url();
		array_unshift( $links, '<a href="' . esc_url( $url ) . '">' . esc_html__( 'Settings', 'florin-payments' ) . '</a>' );
		return $links;
	}
);
