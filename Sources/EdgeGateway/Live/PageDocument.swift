/// The documents that a browser gets: each is one answer that carries its style and scripts.
enum PageDocument {
    /// The live page. A line `{{chart.js}}` of page.html stands for that file; the scripts are one
    /// script, in that order.
    static let live = [
        ("page.css", PackageResources.page_css), ("basics.js", PackageResources.basics_js),
        ("chart.js", PackageResources.chart_js), ("card.js", PackageResources.card_js),
        ("straps.js", PackageResources.straps_js), ("gateway.js", PackageResources.gateway_js),
        ("stream.js", PackageResources.stream_js), ("token.js", PackageResources.token_js),
        ("start.js", PackageResources.start_js),
    ].reduce(text(PackageResources.page_html)) { document, part in
        document.replacing("{{\(part.0)}}\n", with: text(part.1))
    }

    /// The page that hands an invitation over.
    static let enroll = text(PackageResources.enroll_html)

    private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}
