<?php
/**
 * The settings of the plugin as a page, for pictures: its own fields and messages, in a plain form.
 *
 * @package Florin
 */

$field = static function ( $name, array $field ) use ( $gateway ) {
	$value = esc_html( $gateway->get_option( $name ) );
	switch ( $field['type'] ) {
		case 'checkbox':
			return '<label><input type="checkbox"' . ( 'yes' === $value ? ' checked' : '' ) . '> ' . esc_html( $field['label'] ) . '</label>';
		case 'textarea':
			return '<textarea rows="2">' . $value . '</textarea>';
		default:
			return '<input type="' . $field['type'] . '" value="' . $value . '">';
	}
};
?>
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Florin</title><link rel="icon" href="data:,"><style>
	body { margin: 0; padding: 28px 40px; background: #f0f0f1; color: #1d2327; font: 14px/1.5 sans-serif }
	h1 { font-size: 23px; font-weight: 400 } h2 { font-size: 17px } p { max-width: 760px } small { display: block; color: #646970; font-size: 13px }
	.message { margin: 0 0 20px; padding: 10px 14px; border-left: 4px solid #00a32a; background: #fff } .error { border-color: #d63638 }
	dl { display: grid; grid-template-columns: 190px 1fr; gap: 20px } dt { font-weight: 600 } dd { margin: 0 }
	input:not([type=checkbox]), textarea { box-sizing: border-box; width: 460px; padding: 6px 8px; border: 1px solid #8c8f94; border-radius: 4px; font: inherit }
	button { padding: 8px 16px; border: 0; border-radius: 3px; background: #2271b1; color: #fff; font: inherit }
</style></head><body><h1>WooCommerce settings: Payments</h1>
<?php foreach ( WC_Admin_Settings::$messages as $message ) : ?>
	<p class="message <?php echo $message[0]; ?>"><?php echo esc_html( $message[1] ); ?></p>
<?php endforeach; ?>
<h2><?php echo esc_html( $gateway->method_title ); ?></h2><p><?php echo esc_html( $gateway->method_description ); ?></p><dl>
<?php foreach ( $gateway->form_fields as $name => $given ) : ?>
	<dt><?php echo esc_html( $given['title'] ); ?></dt>
	<dd><?php echo $field( $name, $given ) . ( isset( $given['description'] ) ? '<small>' . esc_html( $given['description'] ) . '</small>' : '' ); ?></dd>
<?php endforeach; ?>
</dl><p><button>Save changes</button></p></body></html>
