import Hummingbird
import NIOCore

/// The documents that a browser gets: each is one answer that carries its style and scripts.
enum PageDocument {
    /// The live page.
    static let live = assembled(PackageResources.page_html)

    /// The page of `edge-gateway fleet`; it asks `GET /v1/fleet/hosts`.
    static let fleet = assembled(PackageResources.fleet_html)

    /// The page that hands an invitation over.
    static let enroll = text(PackageResources.enroll_html)

    /// The files that make up the documents.
    private static let parts = [
        ("page.css", PackageResources.page_css), ("strip.css", PackageResources.strip_css),
        ("wall.css", PackageResources.wall_css), ("levels.css", PackageResources.levels_css),
        ("basics.js", PackageResources.basics_js), ("chart.js", PackageResources.chart_js),
        ("need.js", PackageResources.need_js), ("tile.js", PackageResources.tile_js),
        ("card.js", PackageResources.card_js), ("fit.js", PackageResources.fit_js),
        ("places.js", PackageResources.places_js), ("tools.js", PackageResources.tools_js),
        ("opened.js", PackageResources.opened_js), ("strip.js", PackageResources.strip_js),
        ("wall.js", PackageResources.wall_js), ("ward.js", PackageResources.ward_js),
        ("straps.js", PackageResources.straps_js), ("gateway.js", PackageResources.gateway_js),
        ("stream.js", PackageResources.stream_js), ("token.js", PackageResources.token_js),
        ("start.js", PackageResources.start_js), ("fleet.js", PackageResources.fleet_js),
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
