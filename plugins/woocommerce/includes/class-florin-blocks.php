<?php
/**
 * The payment method in the checkout block.
 *
 * @package Florin
 */

defined( 'ABSPATH' ) || exit;

final class Florin_Blocks extends \Automattic\WooCommerce\Blocks\Payments\Integrations\AbstractPaymentMethodType {
	/** @var string */
	protected $name = Florin_Orders::GATEWAY;

	/** Reads the settings. */
	public function initialize() {
		$this->settings = get_option( Florin_Connection::SETTINGS, array() );
	}

	/**
	 * Whether customers see the payment method.
	 *
	 * @return bool
	 */
	public function is_active() {
		return 'yes' === $this->get_setting( 'enabled', 'no' ) && Florin_Connection::is_set_up() && Florin_Gateway::has_rate();
	}

	/**
	 * The script that shows it.
	 *
	 * @return string[]
	 */
	public function get_payment_method_script_handles() {
		wp_register_script(
			'florin-blocks',
			plugins_url( 'assets/blocks.js', FLORIN_PAYMENTS_FILE ),
			array( 'wc-blocks-registry', 'wc-settings', 'wp-element', 'wp-html-entities', 'wp-i18n' ),
			FLORIN_PAYMENTS_VERSION,
			true
		);
		wp_set_script_translations( 'florin-blocks', 'florin-payments', dirname( FLORIN_PAYMENTS_FILE ) . '/languages' );
		return array( 'florin-blocks' );
	}

	/**
	 * What the script shows.
	 *
	 * @return array
	 */
	public function get_payment_method_data() {
		return array(
			'title'       => $this->get_setting( 'title', __( 'Cryptocurrency', 'florin-payments' ) ),
			'description' => Florin_Gateway::described( (string) $this->get_setting( 'description', '' ) ),
			'test'        => Florin_Connection::is_test(),
			'supports'    => array( 'products' ),
		);
	}
}
