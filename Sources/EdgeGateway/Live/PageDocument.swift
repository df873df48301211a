import Hummingbird
import NIOCore

/// The documents that a browser gets: each is one answer that carries its style and scripts.
enum PageDocument {
    /// The live page.
    static let live = assembled(PageResources.page_html)

    /// The page of `edge-gateway fleet`; it asks `GET /v1/fleet/hosts`.
    static let fleet = assembled(PageResources.fleet_html)

    /// The page that hands an invitation over.
    static let enroll = text(PageResources.enroll_html)

    /// What the documents are put together of.
    private static let parts = [
        ("page.css", PageResources.page_css), ("wall.css", PageResources.wall_css),
        ("basics.js", PageResources.basics_js), ("chart.js", PageResources.chart_js),
        ("card.js", PageResources.card_js), ("tile.js", PageResources.tile_js),
        ("wall.js", PageResources.wall_js), ("ward.js", PageResources.ward_js),
        ("straps.js", PageResources.straps_js), ("gateway.js", PageResources.gateway_js),
        ("stream.js", PageResources.stream_js), ("token.js", PageResources.token_js),
        ("start.js", PageResources.start_js), ("fleet.js", PageResources.fleet_js),
    ]

    /// A line `{{chart.js}}` stands for that file; the scripts of a document are one script, in
    /// that order.
    private static func assembled(_ html: [UInt8]) -> String {
        parts.reduce(text(html)) { document, part in
            document.replacing("{{\(part.0)}}\n", with: text(part.1))
        }
    }

    private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    /// The answer that carries a document. Its scripts and styles run by a word that is another at
    /// each request (CSP level 3).
    static func answer(_ document: String) -> Response {
        let nonce = Shares.token()
        let html = document.replacing("{{NONCE}}", with: nonce)
        let policy =
            "default-src 'none'; script-src 'nonce-\(nonce)'; style-src 'nonce-\(nonce)'; "
            + "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
            + "frame-ancestors 'none'"
        return Response(
            status: .ok,
            headers: [
                .contentType: "text/html; charset=utf-8", .cacheControl: "no-store",
                .contentSecurityPolicy: policy,
            ], body: ResponseBody(byteBuffer: ByteBuffer(string: html)))
    }
}
