<?php
/**
 * Deletes the settings with the plugin. Orders keep what they know about their payments.
 *
 * @package Florin
 */

defined( 'WP_UNINSTALL_PLUGIN' ) || exit;

delete_option( 'woocommerce_florin_settings' );
delete_option( 'florin_payments_endpoint' );
delete_option( 'florin_payments_problem' );
delete_option( 'florin_payments_place' );
delete_option( 'florin_payments_site' );
delete_option( 'florin_payments_unplaced' );
delete_option( 'florin_payments_looked' );
