/** Shows the payment method in the checkout block. Written for browsers as it is: nothing has to be built. */
( function ( registry, settings, element, entities, i18n ) {
	const data = settings.getSetting( 'florin_data', {} );
	const title = entities.decodeEntities( data.title || i18n.__( 'Cryptocurrency', 'florin-payments' ) );
	const label = data.test ? title + ' ' + i18n.__( '(test mode)', 'florin-payments' ) : title;
	const content = element.createElement( 'div', null, entities.decodeEntities( data.description || '' ) );

	registry.registerPaymentMethod( {
		name: 'florin',
		label: element.createElement( 'span', null, label ),
		ariaLabel: label,
		content: content,
		edit: content,
		canMakePayment: function () {
			return true;
		},
		supports: { features: data.supports || [ 'products' ] },
	} );
} )( window.wc.wcBlocksRegistry, window.wc.wcSettings, window.wp.element, window.wp.htmlEntities, window.wp.i18n );
