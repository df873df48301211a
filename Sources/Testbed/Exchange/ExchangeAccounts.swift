import Foundation

/// A client's view of itself: profile, consents, clients, devices.
extension StandInExchange {
    private func patientJSON(_ patient: ExchangePatient) -> ExchangeJSON {
        [
            "id": .integer(patient.id), "jheUserId": .integer(patient.userID), "identifiers": [],
            "nameFamily": "Lopez", "nameGiven": "P", "birthDate": .string(patient.birthDate),
            "telecomPhone": nil, "telecomEmail": .string(patient.email),
            "organizations": organizationsJSON(patient),
        ]
    }

    private func organizationsJSON(_ patient: ExchangePatient) -> ExchangeJSON {
        [
            [
                "id": .integer(patient.organization), "name": "Lifespan Lab", "type": "edu",
                "partOf": 20001, "currentUserRole": nil, "children": [],
            ]
        ]
    }

    func profile(_ caller: ExchangeCaller) -> ExchangeAnswer {
        guard case .patient(let id) = caller, let patient = patient(id) else {
            return .json(
                200,
                [
                    "id": 10002, "email": "practitioner@example.com", "firstName": nil,
                    "lastName": nil, "patient": nil, "userType": "practitioner",
                    "isSuperuser": false,
                ])
        }
        return .json(
            200,
            [
                "id": .integer(patient.userID),
                "patient": [
                    "id": .integer(patient.id), "jheUserId": .integer(patient.userID),
                    "identifiers": [], "organizations": organizationsJSON(patient),
                ], "userType": "patient", "isSuperuser": false,
            ])
    }

    func myself(_ caller: ExchangeCaller) -> ExchangeAnswer {
        if version == .v0010 { return .serverError }
        guard case .patient(let id) = caller, let patient = patient(id) else {
            return .detail(404, "No Patient matches the given query.")
        }
        return .json(200, patientJSON(patient))
    }

    func userInfo(_ caller: ExchangeCaller) -> ExchangeAnswer {
        guard case .patient(let id) = caller, let patient = patient(id) else {
            return .json(200, ["sub": "10002", "email": "practitioner@example.com"])
        }
        return .json(200, ["sub": .string("\(patient.userID)"), "email": .string(patient.email)])
    }

    func patient(_ id: Int) -> ExchangePatient? { seed.patients.first { $0.id == id } }

    private func codeJSON(_ name: String) -> ExchangeJSON {
        guard let code = seed.codes.first(where: { $0.code == name }) else { return nil }
        return [
            "id": .integer(code.id), "codingSystem": .string(code.system),
            "codingCode": .string(code.code), "text": .string(code.text),
        ]
    }

    func consents(of id: Int?, for caller: ExchangeCaller) -> ExchangeAnswer {
        guard let id, !unreadable.contains(id) else { return .serverError }
        switch caller {
        case .patient(let own) where own != id:
            return .detail(403, "The Patient does not match the current patient user.")
        case .practitioner where !mayServe(caller, patient: id):
            return .detail(403, "This Practitioner not authorized to access this Patient")
        default: break
        }
        guard let patient = patient(id) else {
            return .detail(404, "No Patient matches the given query.")
        }
        return .json(
            200,
            [
                "patient": patientJSON(patient),
                "consolidatedConsentedScopes": .array(
                    consentedCodes(of: id).sorted().map { codeJSON($0) }),
                "studiesPendingConsent": studiesJSON(of: id, pending: true),
                "studies": studiesJSON(of: id, pending: false),
            ])
    }

    /// The studies in which the patient was asked (or, pending, was not yet asked) for a code.
    private func studiesJSON(of id: Int, pending: Bool) -> ExchangeJSON {
        var list: [ExchangeJSON] = []
        for study in seed.studies where study.patients.contains(id) {
            var scopes: [ExchangeJSON] = []
            for code in study.codes {
                let key = ExchangeConsentKey(patient: id, study: study.id, code: code)
                guard pending == (consents[key] == nil) else { continue }
                scopes.append([
                    "code": codeJSON(code),
                    "consented": consents[key].map { .bool($0.isGiven) } ?? nil,
                    "consentedTime": consents[key].map { .string(Self.timestamp($0.at)) } ?? nil,
                ])
            }
            guard !scopes.isEmpty else { continue }
            let sources = seed.devices.filter { study.devices.contains($0.id) }
            list.append([
                "id": .integer(study.id), "name": .string(study.name),
                "description": .string(study.name),
                "organization": [
                    "id": .integer(study.organization), "name": "Lifespan Lab", "type": "edu",
                ], "dataSources": .array(sources.map { deviceJSON($0) }),
                (pending ? "pendingScopeConsents" : "scopeConsents"): .array(scopes),
            ])
        }
        return .array(list)
    }

    private func deviceJSON(_ device: ExchangeDevice) -> ExchangeJSON {
        [
            "id": .integer(device.id), "name": .string(device.name), "type": .string(device.type),
            "supportedScopes": .array(device.codes.map { codeJSON($0) }),
        ]
    }

    /// Clients come in a page; this server's pages hold a thousand.
    func clientList() -> ExchangeAnswer {
        let clients = seed.clients.map { client -> ExchangeJSON in
            [
                "id": .integer(client.id), "name": .string(client.name),
                "clientId": .string(client.clientID),
                "invitationUrl": .string(client.invitationURL),
            ]
        }
        return .json(
            200,
            [
                "count": .integer(clients.count), "next": nil, "previous": nil,
                "results": .array(clients),
            ])
    }

    func clientDevices(_ id: Int) -> ExchangeAnswer {
        let own = seed.clients.first { $0.id == id }?.devices ?? []
        return .json(
            200, .array(seed.devices.filter { own.contains($0.id) }.map { deviceJSON($0) }))
    }

    func mayServe(_ caller: ExchangeCaller, patient id: Int) -> Bool {
        switch caller {
        case .patient(let own): own == id
        case .practitioner(let organizations):
            patient(id).map { organizations.contains($0.organization) } ?? false
        }
    }

    /// The codes the patient has consented to, in any study.
    func consentedCodes(of id: Int) -> Set<String> {
        Set(consents.filter { $0.key.patient == id && $0.value.isGiven }.keys.map(\.code))
    }

    // MARK: Knobs

    /// Records a patient's consent to a code; any study will do for the server.
    public func grantConsent(
        patient: Int, code: String = "omh:heart-rate:2.0", study: Int = 30001
    ) {
        consents[ExchangeConsentKey(patient: patient, study: study, code: code)] =
            ExchangeConsent(isGiven: true, at: now)
        // A consent shows in the study's list only when the study asks for the code.
        if let index = seed.studies.firstIndex(where: { $0.id == study }),
            !seed.studies[index].codes.contains(code)
        {
            seed.studies[index].codes.append(code)
        }
    }

    /// Takes a code out of the table in which uploads are looked up.
    public func forgetCode(_ code: String) { forgottenCodes.insert(code) }

    /// Withdraws a patient's consent to a code in every study.
    public func withdrawConsent(patient: Int, code: String = "omh:heart-rate:2.0") {
        for key in consents.keys where key.patient == patient && key.code == code {
            consents[key] = ExchangeConsent(isGiven: false, at: now)
        }
    }

    /// Changes the type of a data source; only `personal_device` can upload.
    public func setDeviceType(_ device: Int, to type: String) {
        guard let index = seed.devices.firstIndex(where: { $0.id == device }) else { return }
        seed.devices[index].type = type
    }

    /// Gives a patient to another organization, whose practitioners alone may serve them from now on.
    public func movePatient(_ id: Int, to organization: Int) {
        guard let index = seed.patients.firstIndex(where: { $0.id == id }) else { return }
        seed.patients[index].organization = organization
    }

    /// Takes a patient off the server.
    public func removePatient(_ id: Int) {
        seed.patients.removeAll { $0.id == id }
        accessTokens = accessTokens.filter { $0.value.caller != .patient(id) }
        refreshTokens = refreshTokens.filter { $0.value.caller != .patient(id) }
    }
}
