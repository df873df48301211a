import Foundation

/// Reading stored observations back, as a patient or a practitioner may.
extension StandInExchange {
    /// A page has this many rows unless `_count` says otherwise, and at most a thousand.
    static let pageSize = 20
    static let pageSizeLimit = 1000

    func search(_ request: ExchangeRequest, for caller: ExchangeCaller) -> ExchangeAnswer {
        let served = Set(
            Set(observations.lazy.map(\.patient)).filter { mayServe(caller, patient: $0) })
        var rows = observations.filter { served.contains($0.patient) }
        if let id = request.query["_id"]?.last { rows = rows.filter { String($0.id) == id } }
        if let token = request.query["code"]?.last {
            let parts = token.split(separator: "|", maxSplits: 1, omittingEmptySubsequences: false)
            rows = rows.filter { $0.code == parts.last.map(String.init) }
        }
        if request.query["_summary"]?.last == "count" {
            return .json(
                200,
                [
                    "resourceType": "Bundle", "type": "searchset", "total": .integer(rows.count),
                ])
        }
        let asked = request.query["_count"]?.last.flatMap { Int($0) } ?? Self.pageSize
        let size = asked < 1 ? Self.pageSize : min(asked, Self.pageSizeLimit)
        let pages = max(1, (rows.count + size - 1) / size)
        guard let page = Int(request.query["_page"]?.last ?? "1"), (1...pages).contains(page) else {
            return .detail(404, "Invalid page.")
        }
        // Newest first.
        let shown = rows.reversed().dropFirst((page - 1) * size).prefix(size)
        var links: [ExchangeJSON] = []
        let base = "\(baseURL)\(request.path)?_count=\(size)&_page="
        for (relation, number) in [("self", page), ("previous", page - 1), ("next", page + 1)]
        where (1...pages).contains(number) {
            links.append([
                "relation": .string(relation), "url": .string(base + "\(number)"),
            ])
        }
        return .json(
            200,
            [
                "resourceType": "Bundle", "type": "searchset", "total": .integer(rows.count),
                "entry": .array(shown.map { ["resource": resource($0)] }), "link": .array(links),
                "meta": [:],
            ])
    }

    func read(_ id: Int, for caller: ExchangeCaller) -> ExchangeAnswer {
        guard let row = observations.first(where: { $0.id == id }),
            mayServe(caller, patient: row.patient)
        else { return .outcome(404, "Observation/\(id) not found.") }
        return .json(200, resource(row))
    }

    /// The device a row came from is kept and never shown; the status always reads final.
    private func resource(_ row: StoredObservation) -> ExchangeJSON {
        [
            "resourceType": "Observation", "id": .string("\(row.id)"),
            "meta": ["lastUpdated": .string(Self.timestamp(row.storedAt))],
            "identifier": .array(
                row.identifiers.map {
                    [
                        "system": $0.system.map { .string($0) } ?? nil,
                        "value": $0.value.map { .string($0) } ?? nil,
                    ]
                }), "status": "final",
            "subject": ["reference": .string("Patient/\(row.patient)")],
            "code": [
                "coding": [
                    ["system": .string(ExchangeCode.openMHealth), "code": .string(row.code)]
                ]
            ],
            "valueAttachment": [
                "contentType": "application/json",
                "data": .string(Data(row.dataPoint.bytes).base64EncodedString()),
            ],
        ]
    }

    /// The data sources of the studies the caller can see: id and name, no more.
    func deviceList(for caller: ExchangeCaller) -> ExchangeAnswer {
        let studies = seed.studies.filter { study in
            study.patients.contains { mayServe(caller, patient: $0) }
        }
        let shown = seed.devices.filter { device in
            studies.contains { $0.devices.contains(device.id) }
        }
        return searchSet(
            shown.map {
                [
                    "resourceType": "Device", "id": .string("\($0.id)"),
                    "displayName": .string($0.name),
                ]
            })
    }

    func patientList(for caller: ExchangeCaller) -> ExchangeAnswer {
        searchSet(
            seed.patients.filter { mayServe(caller, patient: $0.id) }.map {
                ["resourceType": "Patient", "id": .string("\($0.id)")]
            })
    }

    private func searchSet(_ resources: [ExchangeJSON]) -> ExchangeAnswer {
        .json(
            200,
            [
                "resourceType": "Bundle", "type": "searchset", "total": .integer(resources.count),
                "entry": .array(resources.map { ["resource": $0] }),
            ])
    }
}
